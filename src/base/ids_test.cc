#include "base/ids.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <unordered_set>

#include "base/clock.h"
#include "base/testing.h"

namespace leat {
namespace {

static_assert(!std::is_convertible_v<NodeId, Generation>);
static_assert(!std::is_constructible_v<NodeId, SliceId>);
static_assert(!std::is_convertible_v<uint64_t, NodeId>);
static_assert(sizeof(SliceId) == 4 && sizeof(NodeId) == 8);

TEST(Id, ComparesHashesAndPrints) {
  EXPECT_EQ(NodeId(), NodeId(0));
  EXPECT_LT(NodeId(1), NodeId(2));
  EXPECT_EQ(ToString(SliceId(7)), "7");
  const std::unordered_set<NodeId> ids = {NodeId(1), NodeId(2), NodeId(1)};
  EXPECT_EQ(ids.size(), 2u);
}

TEST(ManualClock, MovesOnlyWhenTold) {
  ManualClock clock;
  EXPECT_EQ(clock.Now(), Time(0));
  clock.Advance(FromSeconds(1.5));
  EXPECT_DOUBLE_EQ(Seconds(clock.Now()), 1.5);
}

TEST(MonotonicClock, NeverGoesBack) {
  const MonotonicClock clock;
  Time last = clock.Now();
  for (int i = 0; i < 1000; ++i) {
    const Time now = clock.Now();
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace leat
