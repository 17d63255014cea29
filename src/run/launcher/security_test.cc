#include "run/launcher/security.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

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

}  // namespace
}  // namespace leat::launcher
