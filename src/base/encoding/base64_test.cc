#include "base/encoding/base64.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

// RFC 4648, section 10.
TEST(Base64, OfTheStandard) {
  const std::pair<const char*, const char*> pairs[] = {
      {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xfb\xff", "+/8="}};
  for (const auto& [bytes, text] : pairs) {
    EXPECT_EQ(ToBase64(bytes), text);
    EXPECT_EQ(FromBase64(text), bytes);
  }
}

TEST(Base64, EndsWhereTheAlphabetEnds) {
  EXPECT_EQ(FromBase64("Zm9v Zm9v"), "foo");
}

}  // namespace
}  // namespace leat
