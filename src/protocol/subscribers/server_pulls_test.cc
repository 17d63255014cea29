// Answers of a server to members that follow its values.
#include <gmock/gmock.h>

#include "protocol/server/testing.h"

namespace leat::protocol::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

const NodeId kServe(30);

class ServerPullsTest : public TwoServersTest {
 protected:
  void Make(const StrategyConfig& strategy) {
    MakeServers(strategy);
    a_.reply.view.emplace() = ViewWithServe();
    Hear(a_);
  }
  static View ViewWithServe() {
    View view;
    view.generation = Generation(11);
    view.members = {{NodeId(1), Role::kServer, 0, "a"}, {NodeId(2), Role::kServer, 1, "b"}};
    for (uint64_t i = 0; i < 4; ++i)
      view.members.push_back({NodeId(kWorker.value + i), Role::kWorker, 0, ""});
    view.members.push_back({kServe, Role::kServe, 0, ""});
    return view;
  }
  PushRequest Pull(const std::vector<SliceRef>& has) {
    PushRequest request;
    request.sequence = ++sequence_;
    request.worker = kServe;
    request.generation = Generation(11);
    request.slices = has;
    return request;
  }
  std::optional<PushReply> Ask(const PushRequest& request) {
    EXPECT_TRUE(a_.server->Begin(request).ok());
    std::vector<SliceReply> replies;
    const std::vector<float> gradient(config_.table.slices[0].elements(), 1);
    std::vector<std::span<const float>> gradients;
    if (request.disposition == Disposition::kGradient) gradients.assign(request.slices.size(), gradient);
    a_.server->ApplyAll(request, gradients, &replies);
    return a_.server->Finish(++ticket_, request, std::move(replies));
  }
  static std::vector<bool> Values(const std::optional<PushReply>& reply) {
    std::vector<bool> values;
    for (const SliceReply& slice : reply->slices) values.push_back(slice.values);
    return values;
  }

  uint64_t ticket_ = 0;
};

TEST_F(ServerPullsTest, OnlyChangedSlicesHaveValues) {
  Make({.kind = StrategyKind::kAsync});
  const auto first = Ask(Pull({{SliceId(0), {}, 0}, {SliceId(1), {}, 0}, {SliceId(2), Incarnation(3), 0}}));
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->evicted);
  EXPECT_THAT(Values(first), Each(true));
  for (const SliceReply& slice : first->slices) {
    EXPECT_EQ(slice.outcome, SliceOutcome::kPulled);
    EXPECT_EQ(slice.incarnation, kIncarnation);
    EXPECT_EQ(slice.version, 0u);
  }
  Ask(Push(0, {1}));
  const auto second = Ask(Pull({{SliceId(0), kIncarnation, 0},
                                {SliceId(1), kIncarnation, 0},
                                // Versions that a lost server had may be higher.
                                {SliceId(2), kIncarnation, 5}}));
  EXPECT_THAT(Values(second), ElementsAre(false, true, true));
  EXPECT_EQ(second->slices[0].version, 0u);
  EXPECT_EQ(second->slices[1].version, 1u);
  EXPECT_EQ(second->slices[2].version, 0u);
  EXPECT_EQ(a_.server->MakeHeartbeat().progress.refused, 0u);
}

TEST_F(ServerPullsTest, WhatChangesAnythingIsRefused) {
  Make({.kind = StrategyKind::kAsync});
  PushRequest push = Push(0, {0});
  push.worker = kServe;
  push.generation = Generation(12);  // also if it has a newer view
  const auto reply = Ask(push);
  ASSERT_TRUE(reply);
  EXPECT_TRUE(reply->evicted);
  EXPECT_THAT(Outcomes(reply), ElementsAre(SliceOutcome::kNotHere));
  EXPECT_EQ(a_.server->Find(SliceId(0))->version, 0u);
  EXPECT_EQ(a_.server->MakeHeartbeat().progress.refused, 1u);
}

TEST_F(ServerPullsTest, IsAnsweredAtOnceInAStepAndWithoutALane) {
  Make({.kind = StrategyKind::kSync, .lanes = 2});
  Ask(Lane(0, 0, {0}));
  const auto reply = Ask(Pull({{SliceId(0), {}, 0}}));
  ASSERT_TRUE(reply);
  EXPECT_THAT(Values(reply), ElementsAre(true));
  EXPECT_EQ(reply->slices[0].version, 0u);
  Ask(Lane(0, 1, {0}));
  const auto next = Ask(Pull({{SliceId(0), kIncarnation, 0}}));
  EXPECT_THAT(Values(next), ElementsAre(true));
  EXPECT_EQ(next->slices[0].version, 1u);
  // It could announce lanes, and wait.
  PushRequest announces = Pull({{SliceId(0), kIncarnation, 0}});
  announces.step_lane = StepLane{1, 0, 2, 2};
  EXPECT_TRUE(Ask(announces)->evicted);
  PushRequest waits = Pull({{SliceId(0), kIncarnation, 0}});
  waits.version_wanted = 7;
  EXPECT_TRUE(Ask(waits)->evicted);
  EXPECT_EQ(a_.server->MakeHeartbeat().progress.refused, 2u);
}

TEST_F(ServerPullsTest, SlicesElsewhereAreNotHere) {
  Make({.kind = StrategyKind::kAsync});
  a_.reply.orders.erase(a_.reply.orders.begin());
  Hear(a_);
  const auto reply = Ask(Pull({{SliceId(0), kIncarnation, 0}, {SliceId(1), {}, 0}}));
  EXPECT_THAT(Outcomes(reply), ElementsAre(SliceOutcome::kNotHere, SliceOutcome::kPulled));
}

TEST_F(ServerPullsTest, OneThatHasLeftGetsNothing) {
  Make({.kind = StrategyKind::kAsync});
  View without = ViewWithServe();
  without.members.pop_back();
  without.generation = Generation(12);
  a_.reply.view.emplace() = without;
  Hear(a_);
  const auto reply = Ask(Pull({{SliceId(0), {}, 0}}));
  EXPECT_TRUE(reply->evicted);
  EXPECT_THAT(Outcomes(reply), ElementsAre(SliceOutcome::kNotHere));
}

}  // namespace
}  // namespace leat::protocol::testing
