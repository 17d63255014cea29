#include "base/path/paths.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

#include "base/testing.h"

namespace leat {
namespace {

// Leaves the working directory, and comes back at its end.
class Elsewhere {
 public:
  explicit Elsewhere(const std::string& directory) {
    EXPECT_GE(before_, 0);
    EXPECT_EQ(chdir(directory.c_str()), 0);
  }
  ~Elsewhere() {
    EXPECT_EQ(fchdir(before_), 0);
    close(before_);
  }
  Elsewhere(const Elsewhere&) = delete;
  Elsewhere& operator=(const Elsewhere&) = delete;

 private:
  const int before_ = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
};

TEST(AbsolutePath, IsThatOfTheWorkingDirectory) {
  const TempDir directory;
  const Elsewhere elsewhere(directory.path());
  const std::string here = std::filesystem::current_path();
  EXPECT_EQ(*AbsolutePath("x/../y"), here + "/x/../y");
  EXPECT_EQ(AbsolutePathOrThrow("/a/b"), "/a/b");
  EXPECT_EQ(AbsolutePath("").status().code(), Code::kInvalidArgument);
}

TEST(AbsolutePath, SaysThatTheWorkingDirectoryHasBeenDeleted) {
  const TempDir directory;
  const std::string gone = directory / "gone";
  std::filesystem::create_directory(gone);
  const std::string name = std::filesystem::canonical(gone);
  const Elsewhere elsewhere(gone);
  std::filesystem::remove(gone);
  const Status expected(Code::kNotFound,
                        "the working directory " + name + " has been deleted; 'x' is relative to it");
  EXPECT_EQ(AbsolutePath("x").status(), expected);
  EXPECT_EQ(Mistake([] { (void)AbsolutePathOrThrow("x"); }), expected.message());
  EXPECT_EQ(*AbsolutePath("/a/b"), "/a/b") << "which is not needed here";
}

}  // namespace
}  // namespace leat
