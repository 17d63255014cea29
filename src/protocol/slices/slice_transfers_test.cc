#include "protocol/slices/slice_transfers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leat::protocol {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using Planned = SliceMoves::Planned;

const NodeId kServer1(1), kServer2(2), kServer3(3);

class SliceMovesTest : public ::testing::Test {
 protected:
  // The slices of the next move, each of `bytes_`; none: there is no next move.
  std::vector<uint32_t> Begin() {
    const MoveOrder* order = moves_.Begin(now_, [this](const Planned& planned) { return Bytes(planned); });
    std::vector<uint32_t> slices;
    for (size_t i = 0; order && i < order->slices.size(); ++i) slices.push_back(order->slices[i].slice.value);
    return slices;
  }
  std::optional<uint64_t> Bytes(const Planned& planned) const {
    if (planned.slice == waits_) return std::nullopt;
    return planned.slice == gone_ ? 0 : bytes_;
  }
  void Make(Duration takes) {
    moves_.OrderFor(now_, moves_.active()->from, 0);
    moves_.OnFrozen(now_);
    now_ += takes;
    moves_.Finish(now_);
  }

  SliceMoves moves_;
  Time now_{seconds(100)};
  uint64_t bytes_ = 100'000;
  SliceId waits_{99}, gone_{99};
};

TEST_F(SliceMovesTest, AMoveTakesAFewSlicesOfOnePairOfServers) {
  moves_.Plan({{SliceId(3), kServer1, kServer3},
               {SliceId(1), kServer2, kServer3},
               {SliceId(2), kServer1, kServer3},
               {SliceId(0), kServer1, kServer2}},
              true);
  EXPECT_THAT(Begin(), ElementsAre(2, 3));
  EXPECT_EQ(moves_.active()->from, kServer1);
  EXPECT_EQ(moves_.active()->order.to, kServer3);
  EXPECT_EQ(moves_.active()->bytes, 200'000u);
  EXPECT_THAT(Begin(), ElementsAre()) << "one at a time";
  EXPECT_NE(moves_.OrderFor(now_, kServer1, 0), nullptr);
  EXPECT_EQ(moves_.OrderFor(now_, kServer2, 0), nullptr);
}

TEST_F(SliceMovesTest, WhatWaitsIsSkippedAndWhatIsGoneIsDropped) {
  waits_ = SliceId(0);
  gone_ = SliceId(1);
  moves_.Plan(
      {{SliceId(0), kServer1, kServer3}, {SliceId(1), kServer1, kServer3}, {SliceId(2), kServer2, kServer3}},
      true);
  EXPECT_THAT(Begin(), ElementsAre(2));
  EXPECT_EQ(moves_.planned().size(), 1u);
}

TEST_F(SliceMovesTest, APauseFollowsAndItsSizeFollowsTheTime) {
  bytes_ = 1 << 20;
  std::vector<Planned> plan;
  for (uint32_t i = 0; i < 30; ++i) plan.push_back({SliceId(i), kServer1, kServer2});
  moves_.Plan(plan, true);
  EXPECT_EQ(Begin().size(), 1u);
  Make(milliseconds(20));
  EXPECT_THAT(Begin(), ElementsAre());
  now_ += SliceMoves::kPauseFactor * milliseconds(20) - milliseconds(1);
  EXPECT_THAT(Begin(), ElementsAre());
  now_ += milliseconds(1);
  EXPECT_EQ(Begin().size(), 2u) << "it was short";
  Make(milliseconds(80));
  now_ += seconds(1);
  EXPECT_EQ(Begin().size(), 2u);
  Make(milliseconds(300));
  now_ += seconds(2);
  EXPECT_EQ(Begin().size(), 1u) << "it was long";
  EXPECT_EQ(moves_.moved_slices(), 5u);
  EXPECT_EQ(moves_.moved_bytes(), 5u << 20);
}

TEST_F(SliceMovesTest, AFailedPairRestsAndOthersGoOn) {
  moves_.Plan({{SliceId(0), kServer1, kServer3}, {SliceId(1), kServer2, kServer3}}, true);
  EXPECT_THAT(Begin(), ElementsAre(0));
  moves_.Cancel(now_, true);
  EXPECT_EQ(moves_.planned().size(), 2u);
  EXPECT_THAT(Begin(), ElementsAre(1));
  Make(milliseconds(1));
  now_ += milliseconds(20);
  EXPECT_THAT(Begin(), ElementsAre());
  now_ += seconds(1);
  EXPECT_THAT(Begin(), ElementsAre(0));
  EXPECT_EQ(moves_.failed(), 1u);
  // Twice as long after each.
  moves_.Cancel(now_, true);
  now_ += milliseconds(300);
  EXPECT_THAT(Begin(), ElementsAre());
  now_ += milliseconds(300);
  EXPECT_THAT(Begin(), ElementsAre(0));
  moves_.Cancel(now_, false);
  EXPECT_THAT(Begin(), ElementsAre(0)) << "no fault of the servers";
}

TEST_F(SliceMovesTest, AMoveIsLateIfItIsFrozenForLongOrWorkersWaitForIt) {
  bytes_ = 8 << 20;
  moves_.Plan({{SliceId(0), kServer1, kServer3}}, true);
  Begin();
  now_ += seconds(100);
  EXPECT_FALSE(moves_.Late(now_, false)) << "the server does not know of it";
  moves_.OrderFor(now_, kServer1, 7);
  EXPECT_EQ(moves_.active()->order.version, 7u);
  now_ += milliseconds(300);
  EXPECT_TRUE(moves_.Late(now_, false));
  now_ += seconds(100);
  EXPECT_FALSE(moves_.Late(now_, true)) << "a step takes as long as it takes";
  moves_.OnFrozen(now_);
  now_ += milliseconds(2900);
  EXPECT_FALSE(moves_.Late(now_, true)) << "on a slow network";
  now_ += milliseconds(200);
  EXPECT_TRUE(moves_.Late(now_, true));
}

TEST_F(SliceMovesTest, ALostServerIsForgotten) {
  moves_.Plan(
      {{SliceId(0), kServer1, kServer3}, {SliceId(1), kServer2, kServer3}, {SliceId(2), kServer1, kServer2}},
      true);
  EXPECT_TRUE(moves_.levels());
  moves_.Forget(kServer3);
  EXPECT_THAT(Begin(), ElementsAre(2));
  EXPECT_FALSE(moves_.levels()) << "nothing is left to level";
}

}  // namespace
}  // namespace leat::protocol
