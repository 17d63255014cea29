#include "serve/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/testing.h"

namespace leat::serve {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class TokensTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) {
    std::ofstream(path) << text;
    std::filesystem::permissions(path, std::filesystem::perms(0600));
  }
  std::string Refusal(const std::string& text) {
    Write(text);
    return Tokens::Load(path).status().message();
  }
  const TempDir folder;
  const std::string path = std::string(folder.path()) + "/tokens";
};

TEST_F(TokensTest, OnlyThoseInTheFile) {
  Write("# clients\nfirst-token-0000001\n\n  second-token-000002   # the shop\n");
  const auto tokens = Tokens::Load(path);
  ASSERT_TRUE(tokens.ok()) << tokens.status().ToString();
  EXPECT_TRUE((*tokens)->Accepts("first-token-0000001", 0s));
  EXPECT_TRUE((*tokens)->Accepts("second-token-000002", 0s));
  for (const char* no :
       {"", "first-token-000000", "first-token-00000012", "First-token-0000001", "# clients"})
    EXPECT_FALSE((*tokens)->Accepts(no, 0s)) << no;
}

TEST_F(TokensTest, FilesThatAreRefused) {
  EXPECT_THAT(Tokens::Load(path).status().message(), HasSubstr(path));
  EXPECT_EQ(Refusal("# nothing\n"), path + ": there is no token in it");
  EXPECT_EQ(Refusal("first-token-0000001\nshort\n"), path + ":2: a token needs at least 16 characters");
  EXPECT_THAT(Refusal("first token-0000001\n"), HasSubstr(path + ":1: a token has no blanks"));
  Write("first-token-0000001\n");
  std::filesystem::permissions(path, std::filesystem::perms(0644));
  EXPECT_EQ(Tokens::Load(path).status().code(), Code::kPermissionDenied);
}

TEST_F(TokensTest, AFileThatChangesIsReadAgain) {
  Write("first-token-0000001\n");
  auto loaded = Tokens::Load(path);
  ASSERT_TRUE(loaded.ok());
  Tokens& tokens = **loaded;
  EXPECT_TRUE(tokens.Accepts("first-token-0000001", 10s));
  Write("second-token-000002\n");
  EXPECT_TRUE(tokens.Accepts("first-token-0000001", 10s)) << "not looked at again yet";
  EXPECT_FALSE(tokens.Accepts("first-token-0000001", 12s));
  EXPECT_TRUE(tokens.Accepts("second-token-000002", 12s));
  Write("short\n");
  EXPECT_TRUE(tokens.Accepts("second-token-000002", 14s)) << "the former ones stay valid";
}

}  // namespace
}  // namespace leat::serve
