#include "base/threads/stop_event.h"

#include <gtest/gtest.h>

#include "base/threads/thread.h"

namespace leat {
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
