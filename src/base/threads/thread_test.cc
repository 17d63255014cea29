#include "base/threads/thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>

namespace leat {

namespace {

TEST(StartThread, RunsItsBody) {
  int done = 0;
  StartThread([&done] { done = 7; }).join();
  EXPECT_EQ(done, 7);
}

TEST(StartThread, AnExceptionEndsTheProcessWithItsStatus) {
  const auto end = [](auto error) { StartThread([error] { throw error; }).join(); };
  EXPECT_EXIT(end(std::bad_alloc()), ::testing::ExitedWithCode(75), "leat: out of memory");
  EXPECT_EXIT(end(std::system_error(EAGAIN, std::generic_category(), "no more threads")),
              ::testing::ExitedWithCode(75), "leat: no more threads: .*");
  EXPECT_EXIT(end(std::invalid_argument("units: 0")), ::testing::ExitedWithCode(2), "leat: units: 0");
  EXPECT_EXIT(end(std::logic_error("?")), ::testing::ExitedWithCode(1), "leat: [?]");
}

TEST(RunOnThreads, ReturnsTheFirstErrorAlsoOfAnException) {
  std::atomic<int> calls = 0;
  EXPECT_TRUE(RunOnThreads(0, [&] { return ++calls, Status(Code::kInternal, "?"); }).ok());
  EXPECT_TRUE(RunOnThreads(4, [&] { return ++calls, Status(); }).ok());
  EXPECT_EQ(calls, 4);
  const Status failed = RunOnThreads(4, [&] {
    if (++calls == 6) throw std::bad_alloc();
    return Status();
  });
  EXPECT_EQ(failed.code(), Code::kResourceExhausted);
  EXPECT_EQ(calls, 8);
}

}  // namespace

namespace {

TEST(StopEvent, IsAwaitedForALimitedTime) {
  StopEvent stop;
  EXPECT_FALSE(stop.is_set());
  EXPECT_FALSE(stop.Await(std::chrono::milliseconds(1)));
  std::thread setter = StartThread([&stop] { stop.Set(); });
  EXPECT_TRUE(stop.Await(std::chrono::hours(1)));
  setter.join();
  EXPECT_TRUE(stop.is_set());
  EXPECT_TRUE(stop.Await(Duration(0)));
  stop.Set(false);
  EXPECT_FALSE(stop.Await(Duration(0)));
}

}  // namespace

}  // namespace leat
