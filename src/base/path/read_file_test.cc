#include "base/path/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <thread>

#include "base/testing.h"

namespace leat {
namespace {

using ::testing::EndsWith;

TEST(ReadFile, ReadsAllOrTheFirstBytes) {
  const TempDir directory;
  std::string all;
  for (int i = 0; i < 30'000; ++i) all += static_cast<char>(i * 7);
  const std::string path = directory.Write("file", all);
  EXPECT_EQ(*ReadFirstBytes(path, 1 << 20), all);
  EXPECT_EQ(*ReadFirstBytes(path, all.size()), all);
  EXPECT_EQ(*ReadFirstBytes(path, 10), all.substr(0, 10));
  EXPECT_EQ(*ReadFirstBytes(path, 0), "");
  EXPECT_EQ(*ReadFirstBytes(directory.Write("empty", ""), 10), "");
}

TEST(ReadFile, ReadsAPipe) {
  const TempDir directory;
  const std::string path = directory / "pipe", all(100'000, 'x');
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << all; });
  EXPECT_EQ(*ReadFirstBytes(path, 1 << 20), all);
  writer.join();
}

TEST(ReadFile, ErrorsHaveTheCodeOfErrno) {
  const TempDir directory;
  const std::string path = directory.Write("file", "text");
  EXPECT_EQ(ReadFirstBytes(directory / "none", 10).status().code(), Code::kNotFound);
  EXPECT_EQ(ReadFirstBytes(directory.path(), 10).status(),
            Status(Code::kInvalidArgument, directory.path() + ": Is a directory"));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status status = ReadFirstBytes(path, 10).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_THAT(status.message(), EndsWith("file: Too many open files"));
}

}  // namespace
}  // namespace leat
