#include "net/security/private_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <thread>
#include <vector>

#include "base/testing.h"

namespace leat::net {
namespace {

namespace fs = std::filesystem;

unsigned ModeOf(const fs::path& path) {
  struct stat about {};
  EXPECT_EQ(stat(path.c_str(), &about), 0) << path;
  return about.st_mode & 07777;
}

TEST(PrivateFile, ModesThatKeepASecret) {
  for (unsigned mode = 0; mode < 01000; ++mode) {
    const bool others = (mode & 07) != 0;
    const bool group_reads_only = (mode & 070) == 040;
    EXPECT_EQ(IsPrivate(mode, false), (mode & 077) == 0) << std::oct << mode;
    EXPECT_EQ(IsPrivate(mode, true), (mode & 077) == 0 || (!others && group_reads_only)) << std::oct << mode;
  }
}

TEST(PrivateFile, ItsOwnerAloneCanReadIt) {
  const TempDir folder;
  const fs::path path = fs::path(folder.path()) / "a/b/secret";
  const mode_t before = umask(0);
  EXPECT_TRUE(CreatePrivateFile(path, "secret\n").ok());
  umask(before);
  EXPECT_EQ(ModeOf(path), 0600u);
  EXPECT_EQ(ModeOf(path.parent_path()), 0700u);
  const auto read = ReadPrivateFile(path);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, "secret\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(path.parent_path()), {}), 1) << "a temporary file remains";
}

TEST(PrivateFile, AFileThatOthersCanReadIsRefused) {
  const TempDir folder;
  const fs::path path = fs::path(folder.path()) / "secret";
  ASSERT_TRUE(CreatePrivateFile(path, "secret").ok());
  for (const unsigned mode : {0604u, 0644u, 0620u, 0602u, 0666u, 0601u}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    const auto read = ReadPrivateFile(path);
    EXPECT_EQ(read.status().code(), Code::kPermissionDenied) << std::oct << mode;
    EXPECT_NE(read.status().message().find(path.string()), std::string::npos) << read.status().message();
    EXPECT_NE(read.status().message().find("chmod 600"), std::string::npos) << read.status().message();
  }
  // Root may own files that a group reads. As root, the test gives the file away to test the other case.
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  EXPECT_EQ(ReadPrivateFile(path).ok(), getuid() == 0);
  if (getuid() == 0) {
    ASSERT_EQ(chown(path.c_str(), 1, 0), 0);
    EXPECT_EQ(ReadPrivateFile(path).status().code(), Code::kPermissionDenied);
  }
}

TEST(PrivateFile, WhatIsNotAFileIsRefusedAtOnce) {
  const TempDir folder;
  const fs::path path = fs::path(folder.path()) / "secret";
  EXPECT_EQ(ReadPrivateFile(path).status().code(), Code::kNotFound);
  EXPECT_EQ(ReadPrivateFile(folder.path()).status().code(), Code::kInvalidArgument);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(ReadPrivateFile(path).status().code(), Code::kInvalidArgument);
  const fs::path large = fs::path(folder.path()) / "large";
  ASSERT_TRUE(CreatePrivateFile(large, std::string(kMaxPrivateFileBytes + 1, 'x')).ok());
  EXPECT_EQ(ReadPrivateFile(large).status().code(), Code::kInvalidArgument);
}

TEST(PrivateFile, AFileThatExistsIsKept) {
  const TempDir folder;
  const fs::path path = fs::path(folder.path()) / "secret";
  ASSERT_TRUE(CreatePrivateFile(path, "first").ok());
  EXPECT_TRUE(CreatePrivateFile(path, "second").ok());
  EXPECT_EQ(*ReadPrivateFile(path), "first");
}

TEST(PrivateFile, WhereNothingCanBeCreatedTheErrorNamesTheFile) {
  for (const char* path : {"/proc/leat/secret", "/dev/null/secret"}) {
    const Status status = CreatePrivateFile(path, "x");
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(path), std::string::npos) << status.message();
  }
}

// Each creator reads one and the same content, wholly written, from the moment the file exists.
TEST(PrivateFile, SeveralCreatorsAgree) {
  for (int round = 0; round < 50; ++round) {
    const TempDir folder;
    const fs::path path = fs::path(folder.path()) / "made/secret";
    std::vector<std::string> found(4);
    std::vector<std::thread> creators;
    for (std::string& content : found) {
      creators.emplace_back([&path, &content] {
        EXPECT_TRUE(CreatePrivateFile(path, RandomHex(128)).ok());
        content = *ReadPrivateFile(path);
      });
    }
    for (auto& creator : creators) creator.join();
    EXPECT_EQ(std::set(found.begin(), found.end()).size(), 1u);
    EXPECT_EQ(found[0].size(), 256u);
  }
}

TEST(RandomHex, IsDifferentEachTime) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string digits = RandomHex(16);
    EXPECT_EQ(digits.size(), 32u);
    EXPECT_EQ(digits.find_first_not_of("0123456789abcdef"), std::string::npos) << digits;
    EXPECT_TRUE(seen.insert(digits).second);
  }
}

}  // namespace
}  // namespace leat::net
