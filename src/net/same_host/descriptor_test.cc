#include "net/same_host/same_host_peer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace leat::net {
namespace {

TEST(Descriptor, ClosesWhatItHolds) {
  const Descriptor none;
  EXPECT_FALSE(none.ok());
  int number = -1;
  {
    Descriptor first(memfd_create("test", MFD_CLOEXEC));
    number = first.get();
    const Descriptor second(std::move(first));
    EXPECT_FALSE(first.ok());
    EXPECT_EQ(second.get(), number);
    EXPECT_NE(fcntl(number, F_GETFD), -1);
  }
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
}

TEST(OpenPeerFile, OpensTheFileThatIsMeantAndNothingElse) {
  const Descriptor file(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), 3), 0);
  struct stat at {};
  fstat(file.get(), &at);
  const auto found = OpenPeerFile(getpid(), file.get(), at.st_dev, at.st_ino);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->bytes, 3u);
  EXPECT_NE(found->descriptor.get(), file.get());
  EXPECT_EQ(write(found->descriptor.get(), "x", 1), -1) << "to be read only";

  EXPECT_FALSE(OpenPeerFile(getpid(), file.get(), at.st_dev + 1, at.st_ino));
  EXPECT_FALSE(OpenPeerFile(getpid(), file.get(), at.st_dev, at.st_ino + 1));
  for (const pid_t pid : {-1, 0}) EXPECT_FALSE(OpenPeerFile(pid, file.get(), at.st_dev, at.st_ino));
  EXPECT_FALSE(OpenPeerFile(getpid(), -1, at.st_dev, at.st_ino));

  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Descriptor out(ends[0]), in(ends[1]);
  fstat(out.get(), &at);
  EXPECT_FALSE(OpenPeerFile(getpid(), out.get(), at.st_dev, at.st_ino)) << "a pipe is no file";
}

}  // namespace
}  // namespace leat::net
