#include "run/launcher/output/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/testing.h"

namespace leat::launcher {
namespace {

namespace fs = std::filesystem;

std::string ContentOf(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}
mode_t ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}
size_t Entries(const std::string& path) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
}

TEST(OutputFile, IsCompleteOrAsItWas) {
  const TempDir dir;
  const std::string path = dir / "file";
  ASSERT_TRUE(WriteOutput(path, "old").ok());
  {
    auto file = OutputFile::Open(path);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->Write("new").ok());
    EXPECT_EQ(ContentOf(path), "old");
  }
  EXPECT_EQ(ContentOf(path), "old") << "not closed";
  ASSERT_TRUE(WriteOutput(path, "new").ok());
  EXPECT_EQ(ContentOf(path), "new");
  EXPECT_EQ(Entries(dir.path()), 1u);
  EXPECT_EQ(WriteOutput(dir / "none/file", "x").code(), Code::kNotFound);
  EXPECT_EQ(WriteOutput(dir.path(), "x").code(), Code::kInvalidArgument);
}

TEST(OutputFile, HasTheModeOfTheUmaskAndKeepsAnExistingOne) {
  const TempDir dir;
  const mode_t before = umask(027);
  EXPECT_TRUE(WriteOutput(dir / "new", "x").ok());
  umask(before);
  EXPECT_EQ(ModeOf(dir / "new"), 0640u);
  ASSERT_EQ(chmod((dir / "new").c_str(), 0604), 0);
  EXPECT_TRUE(WriteOutput(dir / "new", "y").ok());
  EXPECT_EQ(ModeOf(dir / "new"), 0604u);
}

TEST(OutputFile, LinksAreFollowed) {
  const TempDir dir;
  fs::create_directories(dir / "elsewhere");
  std::ofstream(dir / "elsewhere/real") << "old";
  fs::create_symlink("elsewhere/real", dir / "second");
  fs::create_symlink(dir / "second", dir / "first");
  fs::create_symlink("elsewhere/new", dir / "dangling");
  ASSERT_TRUE(WriteOutput(dir / "first", "text").ok());
  ASSERT_TRUE(WriteOutput(dir / "dangling", "text").ok());
  for (const char* link : {"first", "second", "dangling"}) EXPECT_TRUE(fs::is_symlink(dir / link)) << link;
  EXPECT_EQ(ContentOf(dir / "elsewhere/real"), "text");
  EXPECT_EQ(ContentOf(dir / "elsewhere/new"), "text");
  EXPECT_EQ(Entries(dir / "elsewhere"), 2u);
  fs::create_symlink("loop", dir / "loop");
  EXPECT_EQ(WriteOutput(dir / "loop", "x").code(), Code::kInvalidArgument);
  // Another name of the same file.
  fs::create_hard_link(dir / "elsewhere/real", dir / "other");
  ASSERT_TRUE(WriteOutput(dir / "other", "both").ok());
  EXPECT_EQ(ContentOf(dir / "elsewhere/real"), "both");
}

TEST(OutputFile, PipesAndDevicesStay) {
  const TempDir dir;
  const std::string pipe = dir / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = ContentOf(pipe); });
  EXPECT_TRUE(WriteOutput(pipe, std::string(100'000, 'x')).ok());
  reader.join();
  EXPECT_EQ(read.size(), 100'000u);
  EXPECT_TRUE(fs::is_fifo(pipe));
  // By a link, so that an error of this code cannot replace the device.
  fs::create_symlink("/dev/full", dir / "full");
  fs::create_symlink("/dev/null", dir / "null");
  EXPECT_TRUE(WriteOutput(dir / "null", "x").ok());
  const Status full = WriteOutput(dir / "full", "x");
  EXPECT_EQ(full.code(), Code::kResourceExhausted);
  EXPECT_EQ(full.message(), dir / "full: cannot be written: No space left on device");
  EXPECT_TRUE(fs::is_symlink(dir / "full") && fs::is_character_file(dir / "full"));
}

TEST(OutputFile, DescriptorsAreWrittenToWhereTheyAre) {
  const TempDir dir;
  const int fd = open((dir / "log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ASSERT_EQ(write(fd, "before ", 7), 7);
  ASSERT_TRUE(WriteOutput("/dev/fd/" + std::to_string(fd), "text").ok());
  fs::create_symlink("/proc/self/fd/" + std::to_string(fd), dir / "link");
  ASSERT_TRUE(WriteOutput(dir / "link", " more").ok());
  close(fd);
  EXPECT_EQ(ContentOf(dir / "log"), "before text more");
  // By links, as above.
  fs::create_symlink("/dev/stdout", dir / "out");
  fs::create_symlink("/dev/stderr", dir / "err");
  EXPECT_TRUE(OutputFile::Open(dir / "out")->is_standard_output());
  EXPECT_FALSE(OutputFile::Open(dir / "err")->is_standard_output());
}

TEST(OutputFile, AFileInADirectoryOfOthersIsWrittenInPlace) {
  const TempDir dir;
  fs::create_directories(dir / "closed");
  std::ofstream(dir / "closed/file") << "a long old content";
  // Nothing is closed to root.
  constexpr uid_t kNobody = 65534;
  const bool root = geteuid() == 0;
  if (root) {
    for (const char* path : {"", "closed", "closed/file"})
      ASSERT_EQ(chown((dir / path).c_str(), kNobody, kNobody), 0);
    ASSERT_EQ(seteuid(kNobody), 0);
  }
  ASSERT_EQ(chmod((dir / "closed").c_str(), 0500), 0);
  EXPECT_TRUE(WriteOutput(dir / "closed/file", "new").ok());
  EXPECT_EQ(ContentOf(dir / "closed/file"), "new");
  EXPECT_EQ(WriteOutput(dir / "closed/other", "new").code(), Code::kPermissionDenied);
  ASSERT_EQ(chmod((dir / "closed/file").c_str(), 0400), 0);
  EXPECT_EQ(WriteOutput(dir / "closed/file", "x").code(), Code::kPermissionDenied);
  EXPECT_EQ(chmod((dir / "closed").c_str(), 0700), 0);
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
}

// Root writes over the file of another user, which stays that user's.
TEST(OutputFile, TheOwnerStays) {
  const TempDir dir;
  std::ofstream(dir / "file") << "old";
  if (geteuid() == 0) {
    ASSERT_EQ(chown((dir / "file").c_str(), 65534, 65534), 0);
  }
  struct stat before {
  }, after{};
  ASSERT_EQ(stat((dir / "file").c_str(), &before), 0);
  EXPECT_TRUE(WriteOutput(dir / "file", "new").ok());
  ASSERT_EQ(stat((dir / "file").c_str(), &after), 0);
  EXPECT_EQ(after.st_uid, before.st_uid);
  EXPECT_EQ(after.st_gid, before.st_gid);
}

}  // namespace
}  // namespace leat::launcher
