#include "run/launcher/security.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "base/testing.h"
#include "net/security/private_file.h"
#include "net/tls/testing.h"

namespace leat::launcher {
namespace {

using ::testing::HasSubstr;

class SecurityTest : public ::testing::Test {
 protected:
  SecurityTest() { Clear(); }
  ~SecurityTest() override { Clear(); }
  static void Clear() {
    unsetenv("LEAT_SECURITY");
    unsetenv("LEAT_TRUSTED_NETWORK");
  }
  static std::string Why(const Status& status) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return std::string(status.message());
  }

  net::testing::TestAuthority authority;
  const std::string folder = authority.Issue({"worker"}).string();
};

TEST_F(SecurityTest, TheCommandLineBeatsTheEnvironment) {
  setenv("LEAT_TRUSTED_NETWORK", "1", 1);
  EXPECT_TRUE(UserSecurity("", false)->trusted_network);
  const auto with_tls = UserSecurity(folder, false);
  ASSERT_TRUE(with_tls.ok()) << with_tls.status().ToString();
  EXPECT_NE(with_tls->tls, nullptr);
  EXPECT_FALSE(with_tls->trusted_network);
  Clear();
  setenv("LEAT_SECURITY", folder.c_str(), 1);
  EXPECT_NE(UserSecurity("", false)->tls, nullptr);
  EXPECT_EQ(UserSecurity("", true)->tls, nullptr);
  Clear();
  const auto neither = UserSecurity("", false);
  EXPECT_TRUE(neither.ok() && neither->tls == nullptr && !neither->trusted_network);
}

TEST_F(SecurityTest, Contradictions) {
  EXPECT_THAT(Why(UserSecurity(folder, true).status()), HasSubstr("contradict"));
  setenv("LEAT_SECURITY", folder.c_str(), 1);
  setenv("LEAT_TRUSTED_NETWORK", "1", 1);
  EXPECT_THAT(Why(UserSecurity("", false).status()), HasSubstr("contradict"));
  Clear();
  setenv("LEAT_TRUSTED_NETWORK", "yes", 1);
  EXPECT_THAT(Why(UserSecurity("", false).status()), HasSubstr("'yes'"));
}

TEST_F(SecurityTest, WrongFilesAreNamed) {
  EXPECT_THAT(std::string(UserSecurity("/nowhere", false).status().message()), HasSubstr("/nowhere/ca.pem"));
  std::filesystem::copy_file(authority.Issue({"worker"}) / "key.pem", folder + "/key.pem",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(Why(UserSecurity(folder, false).status()),
              HasSubstr(folder + "/key.pem: not the key of cert.pem"));
}

TEST_F(SecurityTest, OnlyLoopbackIsOpenWithoutEither) {
  const Security neither;
  for (const char* address : {"127.0.0.1:0", "127.9.9.9:80", "[::1]:0", "localhost:0", "not an address"})
    EXPECT_TRUE(CheckListen(neither, address).ok()) << address;
  for (const char* address : {"0.0.0.0:0", "[::]:0", "10.0.0.5:4000", "[2001:db8::1]:0"}) {
    EXPECT_THAT(Why(CheckListen(neither, address)), HasSubstr(std::string("on ") + address)) << address;
    EXPECT_TRUE(CheckListen({.folder = "", .trusted_network = true}, address).ok()) << address;
    EXPECT_TRUE(CheckListen(*UserSecurity(folder, false), address).ok()) << address;
  }
}

TEST_F(SecurityTest, TheJobAgrees) {
  const Security tls = *UserSecurity(folder, false);
  const Security trusted{.folder = "", .trusted_network = true};
  job::Job job = job::Job::FromText(R"(
name: j
stream: {topic: t}
schema: {format: json, fields: {x: {type: number}, y: {type: number, role: label}}}
model: {layers: [dense: {units: 1}], loss: squared_error}
optimizer: {type: sgd, learning_rate: 0.1}
)",
                                    "job");
  for (const Security& any : {Security(), tls, trusted}) EXPECT_TRUE(CheckJob(any, job).ok());
  job.tls = true;
  EXPECT_TRUE(CheckJob(tls, job).ok());
  for (const Security& other : {Security(), trusted})
    EXPECT_THAT(Why(CheckJob(other, job)), HasSubstr("job 'j' requires TLS"));
  job.tls = false;
  job.trusted_network = true;
  for (const Security& other : {Security(), trusted}) EXPECT_TRUE(CheckJob(other, job).ok());
  EXPECT_THAT(Why(CheckJob(tls, job)), HasSubstr("job 'j' is for a trusted network"));
  job.trusted_network = false;
  job.strategy.mpi = true;
  EXPECT_THAT(Why(CheckJob(tls, job)), HasSubstr("MPI"));
}

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
