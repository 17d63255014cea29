#include "net/security/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/testing.h"

namespace leat::net {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class CertificateTest : public ::testing::Test {
 protected:
  fs::path In(const std::string& name) const { return fs::path(folder.path()) / name; }
  Status Issue(const std::string& authority, const std::string& name, CertificateRequest request) const {
    return IssueCertificate(In(authority), In(name), request);
  }
  void MakeWorker() {
    ASSERT_TRUE(CreateAuthority(In("ca")).ok());
    ASSERT_TRUE(Issue("ca", "worker", {.roles = {"worker"}}).ok());
  }
  // The reason why a role's folder is refused.
  std::string Refused(const std::string& name) const {
    const auto found = ReadCertificateFolder(In(name));
    EXPECT_FALSE(found.ok());
    return std::string(found.status().message());
  }

  const TempDir folder;
};

TEST_F(CertificateTest, IssuedByAnAuthorityForItsRoles) {
  ASSERT_TRUE(CreateAuthority(In("ca")).ok());
  const Status issued = Issue("ca", "both",
                              {.roles = {"coordinator", "feed"},
                               .hosts = {"a.cluster", "*.leat.cluster", "10.0.0.5", "2001:db8::1"}});
  ASSERT_TRUE(issued.ok()) << issued.ToString();
  const auto found = ReadCertificateFolder(In("both"));
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->roles, CertificateRoles({CertificateRole::kCoordinator, CertificateRole::kFeed}));
}

TEST_F(CertificateTest, KeysArePrivate) {
  MakeWorker();
  for (const char* name : {"ca/ca-key.pem", "worker/key.pem"}) {
    struct stat about {};
    ASSERT_EQ(stat(In(name).c_str(), &about), 0) << name;
    EXPECT_EQ(about.st_mode & 07777, 0600u) << name;
  }
  ASSERT_EQ(chmod(In("worker/key.pem").c_str(), 0644), 0);
  EXPECT_THAT(Refused("worker"), HasSubstr("worker/key.pem: other users have access"));
  ASSERT_EQ(chmod(In("ca/ca-key.pem").c_str(), 0604), 0);
  EXPECT_EQ(Issue("ca", "second", {.roles = {"worker"}}).code(), Code::kPermissionDenied);
}

TEST_F(CertificateTest, AnotherAuthoritysCertificateIsRefused) {
  MakeWorker();
  ASSERT_TRUE(CreateAuthority(In("other")).ok());
  fs::copy_file(In("other/ca.pem"), In("worker/ca.pem"), fs::copy_options::overwrite_existing);
  EXPECT_THAT(Refused("worker"), HasSubstr("worker/cert.pem: "));
}

TEST_F(CertificateTest, AnExpiredCertificateIsRefused) {
  ASSERT_TRUE(CreateAuthority(In("ca")).ok());
  ASSERT_TRUE(
      Issue("ca", "worker", {.roles = {"worker"}, .hosts = {}, .valid = -std::chrono::hours(24)}).ok());
  EXPECT_THAT(Refused("worker"), HasSubstr("worker/cert.pem: certificate has expired"));
}

TEST_F(CertificateTest, ACertificateIsRenewedAtHalfOfItsLife) {
  ASSERT_TRUE(CreateAuthority(In("ca")).ok());
  ASSERT_TRUE(Issue("ca", "worker", {.roles = {"worker"}, .valid = std::chrono::seconds(1000)}).ok());
  const int64_t now = std::time(nullptr);
  const auto at = RenewalTime(ReadCertificateFolder(In("worker"))->certificate);
  ASSERT_TRUE(at.ok());
  EXPECT_GT(*at, now + 400);
  EXPECT_LE(*at, now + 500);
  EXPECT_EQ(RenewalTime("no certificate").status().code(), Code::kInvalidArgument);
}

TEST_F(CertificateTest, TheKeyOfAnotherCertificateIsRefused) {
  MakeWorker();
  ASSERT_TRUE(Issue("ca", "second", {.roles = {"worker"}}).ok());
  fs::copy_file(In("second/key.pem"), In("worker/key.pem"), fs::copy_options::overwrite_existing);
  EXPECT_THAT(Refused("worker"), HasSubstr("worker/key.pem: not the key of cert.pem"));
}

TEST_F(CertificateTest, DamagedAndMissingFilesAreNamed) {
  for (const char* name : {"ca.pem", "cert.pem", "key.pem"}) {
    fs::remove_all(In("ca"));
    fs::remove_all(In("worker"));
    MakeWorker();
    const fs::path file = In("worker") / name;
    std::ifstream in(file);
    const std::string good((std::istreambuf_iterator<char>(in)), {});
    for (size_t size = 0; size + 1 < good.size(); size += 1 + good.size() / 20) {
      fs::resize_file(file, size);
      EXPECT_THAT(Refused("worker"), HasSubstr(file.string())) << size;
    }
    fs::remove(file);
    EXPECT_THAT(Refused("worker"), HasSubstr(file.string()));
  }
}

TEST_F(CertificateTest, WhatCannotBeIssued) {
  EXPECT_EQ(Issue("ca", "worker", {.roles = {"worker"}}).code(), Code::kNotFound) << "without an authority";
  ASSERT_TRUE(CreateAuthority(In("ca")).ok());
  EXPECT_EQ(CreateAuthority(In("ca")).code(), Code::kFailedPrecondition);
  const Status unknown = Issue("ca", "worker", {.roles = {"wroker"}});
  EXPECT_EQ(unknown.code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.message()),
              HasSubstr("unknown role 'wroker' of a certificate; roles are coordinator, server,"));
  EXPECT_EQ(Issue("ca", "worker", {}).code(), Code::kInvalidArgument);
  for (const char* host : {"", "a b", "a,URI:leat:role:admin", "*", "*.", "*.cluster", "a.*.b", ".a", "a.",
                           "10.0.0.5/8", "[::1]"}) {
    EXPECT_EQ(Issue("ca", "worker", {.roles = {"worker"}, .hosts = {host}}).code(), Code::kInvalidArgument)
        << host;
  }
  EXPECT_FALSE(fs::exists(In("worker"))) << "nothing is written";
}

TEST_F(CertificateTest, FoldersWithFilesStayAsTheyAre) {
  MakeWorker();
  EXPECT_EQ(Issue("ca", "worker", {.roles = {"worker"}}).code(), Code::kFailedPrecondition);
  EXPECT_EQ(CreateAuthority(In("worker")).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(ReadCertificateFolder(In("worker")).ok());
  fs::create_directory(In("empty"));
  EXPECT_TRUE(Issue("ca", "empty/", {.roles = {"worker"}}).ok());
  EXPECT_TRUE(ReadCertificateFolder(In("empty")).ok());
  // A folder that cannot get its name leaves nothing behind.
  std::ofstream(In("file")) << "x";
  EXPECT_FALSE(Issue("ca", "file", {.roles = {"worker"}}).ok());
  EXPECT_FALSE(Issue("ca", "file/below", {.roles = {"worker"}}).ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 4);
}

}  // namespace
}  // namespace leat::net
