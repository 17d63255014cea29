#include "base/files/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "base/testing.h"

namespace leat {
namespace {

bool IsOpen(int fd) {
  return fcntl(fd, F_GETFD) != -1;
}

TEST(Descriptor, IsClosedByItsLastOwner) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  Descriptor in(ends[0]), out(ends[1]);
  in = std::move(out);
  EXPECT_FALSE(IsOpen(ends[0])) << "at once";
  EXPECT_FALSE(out.ok());
  EXPECT_EQ(in.get(), ends[1]);
  EXPECT_EQ(in.Release(), ends[1]);
  EXPECT_FALSE(in.ok());
  EXPECT_TRUE(IsOpen(ends[1]));
  { const Descriptor last(ends[1]); }
  EXPECT_FALSE(IsOpen(ends[1]));
}

TEST(WriteAll, WritesAllOrSaysWhyNot) {
  const TempDir dir;
  const std::string path = dir / "file";
  {
    const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT, 0600));
    EXPECT_TRUE(WriteAll(file.get(), AsBytes("one ")));
    EXPECT_TRUE(WriteAll(file.get(), {}));
    EXPECT_TRUE(WriteAll(file.get(), AsBytes("two")));
  }
  EXPECT_EQ(ReadAll(path), "one two");
  const Descriptor read_only(open(path.c_str(), O_RDONLY));
  EXPECT_FALSE(WriteAll(read_only.get(), AsBytes("x")));
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace leat
