#include "show/http/view_token.h"

#include <gtest/gtest.h>

namespace leat::observe {
namespace {

// printf 'leat view token 1' | openssl dgst -sha256 -hmac secret
TEST(ViewTokenTest, IsAnHmacOfTheToken) {
  EXPECT_EQ(ViewToken("secret"), "92e8e08f2a708c556ae9b826630b1bad5965c67a0bb247605afe6870612f54da");
  EXPECT_NE(ViewToken("secret"), ViewToken("Secret"));
}

TEST(ViewTokenTest, SecretsAreTheSameOnlyIfAllIsEqual) {
  EXPECT_TRUE(SameSecret("abc", "abc"));
  EXPECT_FALSE(SameSecret("abc", "abd"));
  EXPECT_FALSE(SameSecret("abc", "ab"));
  EXPECT_FALSE(SameSecret("", "a"));
}

}  // namespace
}  // namespace leat::observe
