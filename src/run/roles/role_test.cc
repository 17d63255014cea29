#include "run/roles/role.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/testing.h"
#include "storage/checkpoint/file.h"

namespace leat::roles {
namespace {

namespace fs = std::filesystem;

size_t Entries(const std::string& directory) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

TEST(ScratchTest, IsPrivateAndRemovedAtTheEnd) {
  TempDir dir;
  const std::string parent = dir.path() + "/new";
  {
    const auto scratch = Scratch::Make(parent);
    ASSERT_TRUE(scratch.ok()) << scratch.status().ToString();
    struct stat info;
    ASSERT_EQ(stat((*scratch)->path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    ASSERT_TRUE(checkpoint::ReplaceFile((*scratch)->path(), "file", AsBytes("x")).ok());
    const auto other = Scratch::Make(parent);  // leaves the first one alone
    ASSERT_TRUE(other.ok());
    EXPECT_TRUE(checkpoint::Exists((*scratch)->path() + "/file"));
    EXPECT_EQ(Entries(parent), 2u);
  }
  EXPECT_EQ(Entries(parent), 0u);
}

TEST(ScratchTest, TheNextProcessRemovesWhatAKilledOneHasLeft) {
  TempDir dir;
  const pid_t child = fork();
  if (child == 0) {
    const auto scratch = Scratch::Make(dir.path());
    if (scratch.ok()) (void)checkpoint::ReplaceFile((*scratch)->path(), "file", AsBytes("x"));
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  ASSERT_EQ(Entries(dir.path()), 1u);
  fs::create_directory(dir.path() + "/leat-other");
  const auto scratch = Scratch::Make(dir.path());
  ASSERT_TRUE(scratch.ok()) << scratch.status().ToString();
  EXPECT_EQ(Entries(dir.path()), 2u) << "the new one, and a directory that is no scratch";
}

TEST(ScratchTest, ErrorsNameTheDirectory) {
  TempDir dir;
  const auto scratch = Scratch::Make(dir.path() + "/missing/too");
  ASSERT_FALSE(scratch.ok());
  EXPECT_NE(scratch.status().message().find("/missing/too"), std::string::npos);
}

}  // namespace
}  // namespace leat::roles
