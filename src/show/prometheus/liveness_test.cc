#include "show/prometheus/role_metrics.h"

#include <gtest/gtest.h>

#include <memory>

namespace leat::observe {
namespace {

class LivenessTest : public ::testing::Test {
 protected:
  void Watch() {
    liveness_.Watch(now_, [this] { return kernels_; });
  }
  bool AliveAfter(Duration time) {
    now_ += time;
    return liveness_.Alive(now_);
  }

  Liveness liveness_;
  Time now_{std::chrono::seconds(1000)};
  uint64_t kernels_ = 7;
};

TEST_F(LivenessTest, FailsWhenTheLoopHangsAndComesBackWithIt) {
  Watch();
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(AliveAfter(std::chrono::seconds(10)));
    liveness_.Turned(now_);
  }
  EXPECT_TRUE(AliveAfter(std::chrono::seconds(60)));
  EXPECT_FALSE(AliveAfter(std::chrono::seconds(1)));
  EXPECT_FALSE(AliveAfter(std::chrono::hours(1)));
  liveness_.Turned(now_);
  EXPECT_TRUE(AliveAfter(std::chrono::seconds(60)));
}

TEST_F(LivenessTest, NobodyHasToLookInBetween) {
  Watch();
  EXPECT_FALSE(AliveAfter(std::chrono::seconds(61)))
      << "the first look comes after the loop has hung for long enough";
}

TEST_F(LivenessTest, ALongBatchIsAliveAsLongAsKernelsFinish) {
  Watch();
  for (int i = 0; i < 100; ++i) {
    ++kernels_;
    EXPECT_TRUE(AliveAfter(std::chrono::seconds(59))) << i;
  }
  EXPECT_FALSE(AliveAfter(std::chrono::seconds(61))) << "a kernel that does not end";
}

TEST_F(LivenessTest, ARoleThatStartsOrEndsIsAlive) {
  EXPECT_TRUE(AliveAfter(std::chrono::hours(1)));
  liveness_.Turned(now_);
  EXPECT_TRUE(AliveAfter(std::chrono::hours(1)));
  Watch();
  EXPECT_FALSE(AliveAfter(std::chrono::hours(1)));
  liveness_.Unwatch();
  EXPECT_TRUE(AliveAfter(std::chrono::hours(1)));
}

}  // namespace
}  // namespace leat::observe
