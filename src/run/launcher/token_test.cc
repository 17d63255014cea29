#include "run/launcher/token.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/testing.h"
#include "net/security/private_file.h"

namespace leat::launcher {
namespace {

namespace fs = std::filesystem;

// Sets a variable of the environment, or removes it, until destruction.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    Set(value);
  }
  ~ScopedVariable() { Set(before_ ? before_->c_str() : nullptr); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  void Set(const char* value) { value != nullptr ? setenv(name_, value, 1) : unsetenv(name_); }
  const char* name_;
  std::optional<std::string> before_;
};

class UserTokenTest : public ::testing::Test {
 protected:
  const TempDir home;
  const ScopedVariable home_variable{"HOME", home.path().c_str()};
  const ScopedVariable token_variable{"LEAT_TOKEN", nullptr};
  const ScopedVariable file_variable{"LEAT_TOKEN_FILE", nullptr};
  const fs::path file = fs::path(home.path()) / ".config/leat/token";
};

TEST_F(UserTokenTest, IsCreatedOnceAndPrivate) {
  const auto token = UserToken();
  ASSERT_TRUE(token.ok()) << token.status().ToString();
  EXPECT_EQ(token->size(), 32u);
  EXPECT_EQ(*UserToken(), *token);
  struct stat about {};
  ASSERT_EQ(stat(file.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0600u);
}

TEST_F(UserTokenTest, TheVariableComesFirst) {
  const ScopedVariable variable("LEAT_TOKEN", "of the job");
  EXPECT_EQ(*UserToken(), "of the job");
  EXPECT_FALSE(fs::exists(file));
}

TEST_F(UserTokenTest, TheNamedFileComesNext) {
  const fs::path named = fs::path(home.path()) / "secrets/token";
  ASSERT_TRUE(net::CreatePrivateFile(named, "of the file\nand a comment\n").ok());
  const ScopedVariable variable("LEAT_TOKEN_FILE", named.c_str());
  EXPECT_EQ(*UserToken(), "of the file");
  EXPECT_FALSE(fs::exists(file));
  const ScopedVariable first("LEAT_TOKEN", "of the job");
  EXPECT_EQ(*UserToken(), "of the job");
}

TEST_F(UserTokenTest, ANamedFileThatCannotBeUsedIsRefused) {
  const fs::path named = fs::path(home.path()) / "token";
  const ScopedVariable variable("LEAT_TOKEN_FILE", named.c_str());
  const auto refused = [&named](Code code) {
    const auto token = UserToken();
    EXPECT_EQ(token.status().code(), code);
    EXPECT_NE(token.status().message().find(named.string()), std::string::npos) << token.status().message();
  };
  refused(Code::kInvalidArgument);  // nobody else would know a token that is made up
  EXPECT_FALSE(fs::exists(named));
  EXPECT_FALSE(fs::exists(file));
  ASSERT_TRUE(net::CreatePrivateFile(named, "\n").ok());
  refused(Code::kInvalidArgument);
  std::ofstream(named) << "secret";
  ASSERT_EQ(chmod(named.c_str(), 0644), 0);
  refused(Code::kPermissionDenied);
}

TEST_F(UserTokenTest, AFileThatOthersCanReadIsRefused) {
  ASSERT_TRUE(UserToken().ok());
  ASSERT_EQ(chmod(file.c_str(), 0644), 0);
  const auto token = UserToken();
  EXPECT_EQ(token.status().code(), Code::kPermissionDenied);
  EXPECT_NE(token.status().message().find(file.string()), std::string::npos) << token.status().message();
}

TEST_F(UserTokenTest, AnEmptyFileIsRefused) {
  for (const char* content : {"", "\nsecret\n"}) {
    fs::remove(file);
    ASSERT_TRUE(net::CreatePrivateFile(file, content).ok());
    EXPECT_EQ(UserToken().status().code(), Code::kInvalidArgument);
  }
}

TEST_F(UserTokenTest, WithoutAHomeThereIsNoFile) {
  for (const char* none : {"", "relative", "/proc/leat", "/dev/null"}) {
    const ScopedVariable variable("HOME", none);
    const auto token = UserToken();
    EXPECT_EQ(token.status().code(), Code::kNotFound) << none;
    EXPECT_NE(token.status().message().find("LEAT_TOKEN"), std::string::npos) << token.status().message();
  }
  EXPECT_FALSE(fs::exists("relative"));
}

TEST(RandomToken, Differs) {
  EXPECT_NE(RandomToken(), RandomToken());
}

}  // namespace
}  // namespace leat::launcher
