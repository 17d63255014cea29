// Slices on two servers, whose coordinator and network are played by the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "protocol/server/testing.h"

namespace leat::protocol {
namespace {

using namespace testing;  // NOLINT: the helpers of this folder
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kEpoch = 55;

class ServerReplicasTest : public TwoServersTest {
 protected:
  ServerReplicasTest() { Make({}); }

  // All slices are on a_, and all have replicas on b_.
  void Make(const StrategyConfig& strategy) {
    MakeServers(strategy);
    all_.clear();
    for (const SliceOrder& order : a_.reply.orders) all_.push_back({order.slice, order.incarnation});
    Copy();
  }
  // As a move does.
  void Copy() {
    a_.reply.moves = {{.id = kEpoch,
                       .to = b_.node,
                       .address = "b",
                       .slices = all_,
                       .version = 0,
                       .kind = MoveOrder::Kind::kCopy}};
    b_.reply.incoming = {kEpoch};
    Hear(a_);
    a_.server->OnMoveConnected(kEpoch);
    std::vector<MovedSlice> sent;
    for (const MoveAction& action : a_.server->TakeMoveActions()) {
      if (const auto* send = std::get_if<SendMove>(&action)) sent = send->slices;
    }
    ASSERT_EQ(sent.size(), all_.size());
    ASSERT_TRUE(b_.server->OnMoveArrived(kEpoch, sent).ok());
    Hear(b_);
    a_.reply.moves.clear();
    b_.reply.incoming.clear();
    a_.reply.replicated = {{.epoch = kEpoch, .server = b_.node, .address = "b", .slices = all_}};
    b_.reply.replicas = {{.epoch = kEpoch, .server = a_.node, .address = "", .slices = all_}};
    Hear(b_);
    Hear(a_);
  }

  // Everything that a_ has forwarded, and the answers.
  std::vector<ForwardReply> Deliver() {
    std::vector<ForwardReply> replies;
    for (const Forward& forward : std::exchange(a_.forwards, {})) {
      const Status good = b_.server->BeginForward(*forward.request);
      EXPECT_TRUE(good.ok()) << good.ToString();
      replies.push_back(b_.server->TakeForward(*forward.request, forward.gradients));
      a_.server->OnForwarded(b_.node, replies.back());
    }
    Collect(a_);
    Collect(b_);
    return replies;
  }
  // a_ is gone, and b_ takes its place.
  void Promote() {
    for (const SliceIncarnation& which : all_)
      b_.reply.orders.push_back({which.slice, which.incarnation, "", "", 0, kEpoch});
    b_.reply.replicas.clear();
    Hear(b_);
  }

  std::optional<PushReply> Offer(Node& node, const PushRequest& request) {
    std::vector<uint64_t> elements;
    const Status begun = node.server->Begin(request, &elements);
    EXPECT_TRUE(begun.ok()) << begun.ToString();
    std::vector<std::vector<float>> numbers;
    for (const uint64_t n : elements)
      numbers.emplace_back(n, static_cast<float>(1 + request.run + request.cut.partition));
    const std::vector<std::span<const float>> gradients(numbers.begin(), numbers.end());
    std::vector<SliceReply> replies;
    const bool gradient = request.disposition == Disposition::kGradient;
    node.server->ApplyAll(request, gradient ? gradients : std::vector<std::span<const float>>(), &replies);
    auto reply = node.server->Finish(request.sequence, request, std::move(replies));
    Collect(node);
    return reply;
  }

  std::vector<SliceIncarnation> all_;
};

TEST_F(ServerReplicasTest, APushIsAnsweredWhenTheReplicaHasIt) {
  EXPECT_EQ(Offer(a_, Push(0, {0, 1})), std::nullopt);
  EXPECT_EQ(Offer(a_, Push(1, {0, 1})), std::nullopt) << "the next one does not wait to be forwarded";
  ASSERT_THAT(a_.forwards, SizeIs(2));
  EXPECT_EQ(a_.forwards[1].request->number, 2u);
  EXPECT_EQ(a_.forwards[1].address, "b");
  EXPECT_THAT(Late(a_), IsEmpty());
  Deliver();
  EXPECT_THAT(Late(a_), ElementsAre(SliceOutcome::kApplied, SliceOutcome::kApplied, SliceOutcome::kApplied,
                                    SliceOutcome::kApplied));
  EXPECT_THAT(Outcomes(Offer(a_, Push(1, {0}))), ElementsAre(SliceOutcome::kDuplicate));
}

TEST_F(ServerReplicasTest, TheReplicaTakesThePlaceOfTheSliceAsItWas) {
  for (uint32_t run = 0; run < 5; ++run) Offer(a_, Push(run, {0, 1, 2}));
  Deliver();
  EXPECT_EQ(b_.server->Find(SliceId(0)), nullptr) << "nobody but its primary uses it";
  EXPECT_EQ(Offer(b_, Push(5, {0})), std::nullopt) << "a worker knows before the server does";
  Promote();
  EXPECT_THAT(Late(b_), ElementsAre(SliceOutcome::kMoving)) << "push it again";
  for (uint32_t i : {0u, 1u, 2u}) {
    const Slice* const then = a_.server->Find(SliceId(i));
    const Slice* const now = b_.server->Find(SliceId(i));
    ASSERT_NE(now, nullptr);
    EXPECT_EQ(Memory(*now), Memory(*then));
    EXPECT_EQ(now->ledger, then->ledger);
    EXPECT_EQ(now->version, 5u);
    EXPECT_EQ(now->events, then->events);
  }
  EXPECT_THAT(Outcomes(Offer(b_, Push(4, {0}))), ElementsAre(SliceOutcome::kDuplicate));
  EXPECT_THAT(Outcomes(Offer(b_, Push(5, {0}))), ElementsAre(SliceOutcome::kApplied));
  EXPECT_EQ(b_.server->MakeHeartbeat().progress.staleness_count, 1u) << "the primary has counted the others";
}

TEST_F(ServerReplicasTest, TheFormerPrimaryAnswersNothingMore) {
  Promote();
  EXPECT_EQ(Offer(a_, Push(0, {0})), std::nullopt);
  const auto replies = Deliver();
  ASSERT_THAT(replies, SizeIs(1));
  EXPECT_THAT(replies[0].refused, ElementsAre(SliceId(0)));
  EXPECT_THAT(Late(a_), IsEmpty());
  // When the worker's patience ends, it is to push again, wherever the slice is then.
  a_.server->Expire(sequence_);
  Collect(a_);
  EXPECT_THAT(Late(a_), ElementsAre(SliceOutcome::kMoving));
  EXPECT_EQ(Offer(a_, Push(0, {0})), std::nullopt) << "the ledger has it, and nobody else";
  const ServerHeartbeat heartbeat = a_.server->MakeHeartbeat();
  ASSERT_THAT(heartbeat.lost_replicas, SizeIs(1));
  EXPECT_EQ(heartbeat.lost_replicas[0].epoch, kEpoch);
  // It is evicted at last.
  ServerHeartbeatReply evicted;
  evicted.evicted = true;
  a_.server->OnHeartbeatReply(evicted);
  Collect(a_);
  EXPECT_THAT(Late(a_), ElementsAre(SliceOutcome::kNotHere));
}

TEST_F(ServerReplicasTest, OnlyTheCoordinatorEndsTheWaitForAReplica) {
  EXPECT_EQ(Offer(a_, Push(0, {0, 1})), std::nullopt);
  a_.forwards.clear();
  a_.server->OnForwardFailed(b_.node, kEpoch, Status(Code::kUnavailable, "gone"));
  EXPECT_TRUE(a_.server->HeartbeatUrgent());
  EXPECT_THAT(Hear(a_).lost_replicas, SizeIs(all_.size()));
  EXPECT_THAT(Late(a_), IsEmpty());
  a_.reply.replicated.clear();
  Hear(a_);
  EXPECT_THAT(Late(a_), ElementsAre(SliceOutcome::kApplied, SliceOutcome::kApplied));
  EXPECT_THAT(Outcomes(Offer(a_, Push(1, {0}))), ElementsAre(SliceOutcome::kApplied));
  EXPECT_THAT(a_.forwards, IsEmpty());
}

TEST_F(ServerReplicasTest, TheServerOfTheReplicaReportsTheLedger) {
  Hear(a_);
  Hear(b_);
  Offer(a_, Push(0, {0, 1, 2}));
  EXPECT_THAT(Hear(a_).ledgers, IsEmpty());
  EXPECT_THAT(Hear(b_).ledgers, IsEmpty());
  Deliver();
  EXPECT_THAT(Hear(a_).ledgers, IsEmpty());
  const auto ledgers = Hear(b_).ledgers;
  ASSERT_THAT(ledgers, SizeIs(1));
  EXPECT_THAT(ledgers[0].slices, SizeIs(3));
  a_.reply.replicated.clear();
  Hear(a_);
  const auto alone = Hear(a_).ledgers;
  ASSERT_THAT(alone, SizeIs(1));
  EXPECT_THAT(alone[0].slices, SizeIs(3)) << "what it has not reported before";
}

TEST_F(ServerReplicasTest, WhatIsMissingOnALinkIsFoundOut) {
  Offer(a_, Push(0, {0}));
  Offer(a_, Push(1, {0}));
  auto forwards = std::exchange(a_.forwards, {});
  a_.forwards = {forwards[1]};
  const auto replies = Deliver();
  EXPECT_TRUE(replies[0].broken);
  EXPECT_THAT(Hear(a_).lost_replicas, SizeIs(all_.size()));
  EXPECT_THAT(Late(a_), IsEmpty());
  // A forward that comes twice is no news.
  const auto first = b_.server->TakeForward(*forwards[0].request, forwards[0].gradients);
  const auto again = b_.server->TakeForward(*forwards[0].request, forwards[0].gradients);
  EXPECT_EQ(first, again);
  Promote();
  EXPECT_EQ(b_.server->Find(SliceId(0))->version, 1u);
}

TEST_F(ServerReplicasTest, AReplicaGoesOnWithTheServerThatItsSliceMovesTo) {
  Offer(a_, Push(0, {0, 1}));
  a_.reply.moves = {{.id = 60, .to = NodeId(3), .address = "c", .slices = {all_[0]}}};
  Hear(a_);
  a_.server->OnMoveConnected(60);
  EXPECT_THAT(a_.server->TakeMoveActions(), IsEmpty()) << "until the replica has all";
  a_.server->OnForwarded(b_.node, b_.server->TakeForward(*a_.forwards[0].request, a_.forwards[0].gradients));
  a_.forwards.clear();
  EXPECT_THAT(a_.server->TakeMoveActions(), SizeIs(1));
  // The new primary's first push comes before the coordinator's order.
  ForwardRequest first;
  first.from = NodeId(3);
  first.link = 60;
  first.number = 1;
  first.push = Push(1, {0});
  first.epochs = {60};
  first.versions = {2};
  const std::vector<float> gradient(config_.table.slices[0].elements(), 1.0f);
  const std::vector<std::span<const float>> gradients = {gradient};
  EXPECT_THAT(b_.server->TakeForward(first, gradients).refused, IsEmpty());
  Offer(a_, Push(2, {1}));
  EXPECT_THAT(Deliver()[0].refused, IsEmpty()) << "the other slice stays";
  // The former primary of slice 0 is refused.
  ForwardRequest late = first;
  late.from = a_.node;
  late.link = kEpoch;
  late.number = 3;
  late.epochs = {kEpoch};
  EXPECT_THAT(b_.server->TakeForward(late, gradients).refused, ElementsAre(SliceId(0)));
}

TEST_F(ServerReplicasTest, SlicesAreHandedOverToTheirReplicas) {
  Offer(a_, Push(0, {0, 1}));
  a_.reply.moves = {
      {.id = 60, .to = b_.node, .address = "b", .slices = {all_[0]}, .kind = MoveOrder::Kind::kHandOver}};
  Hear(a_);
  EXPECT_THAT(Hear(a_).moves, IsEmpty()) << "the replica lacks a run";
  Deliver();
  EXPECT_TRUE(a_.server->HeartbeatUrgent());
  const auto moves = Hear(a_).moves;
  ASSERT_THAT(moves, SizeIs(1));
  EXPECT_EQ(moves[0].stage, MoveReport::Stage::kFrozen);
  EXPECT_EQ(Offer(a_, Push(1, {0})), std::nullopt) << "frozen";
}

TEST_F(ServerReplicasTest, AReplicaHasTheOpenStepsOfItsSlice) {
  Make({.kind = StrategyKind::kSync, .lanes = 3});
  for (uint64_t step = 0; step < 3; ++step) {
    for (uint32_t lane = 0; lane < 3; ++lane) {
      if (step == 2 && lane == 1) continue;
      EXPECT_EQ(Offer(a_, Lane(step, lane, {0, 1})), std::nullopt);
    }
  }
  Deliver();
  EXPECT_THAT(Late(a_), SizeIs(16));
  Promote();
  EXPECT_EQ(b_.server->Find(SliceId(0))->version, 2u);
  EXPECT_EQ(Memory(*b_.server->Find(SliceId(0))), Memory(*a_.server->Find(SliceId(0))));
  EXPECT_THAT(Outcomes(Offer(b_, Lane(2, 0, {0, 1}))), Each(SliceOutcome::kHeld));
  EXPECT_THAT(Outcomes(Offer(b_, Lane(2, 1, {0, 1}))), Each(SliceOutcome::kApplied));
  Offer(a_, Lane(2, 1, {0, 1}));
  EXPECT_EQ(Memory(*b_.server->Find(SliceId(0))), Memory(*a_.server->Find(SliceId(0))))
      << "bit by bit, as it would have been";
}

TEST_F(ServerReplicasTest, AStepIsNotShownBeforeTheReplicaHasCompletedIt) {
  Make({.kind = StrategyKind::kSync, .lanes = 2});
  Offer(a_, Lane(0, 0, {0, 1}));
  Deliver();
  Late(a_);
  PushRequest pull = Push(0, {0});
  pull.disposition = Disposition::kPull;
  pull.cut = {};
  pull.events = 0;
  pull.version_wanted = 1;
  EXPECT_EQ(Offer(a_, pull), std::nullopt);
  EXPECT_EQ(Offer(a_, Lane(0, 1, {0, 1})), std::nullopt);
  EXPECT_THAT(Late(a_), IsEmpty()) << "the step is complete here alone";
  Deliver();
  EXPECT_THAT(Late(a_), ElementsAre(SliceOutcome::kPulled, SliceOutcome::kApplied, SliceOutcome::kApplied));
}

TEST_F(ServerReplicasTest, AReplicaOfTheDecidingSliceKnowsWhichLanesCount) {
  Make({.kind = StrategyKind::kSync, .lanes = 2, .backup = 1});
  std::vector<uint32_t> slices;
  for (const SliceIncarnation& which : all_) slices.push_back(which.slice.value);
  Offer(a_, Lane(0, 2, slices));
  Offer(a_, Lane(0, 0, slices));
  EXPECT_EQ(a_.server->Find(SliceId(0))->version, 0u) << "another server could still choose other lanes";
  Deliver();
  EXPECT_EQ(a_.server->Find(SliceId(0))->version, 1u);
  Deliver();
  Promote();
  EXPECT_EQ(b_.server->Find(SliceId(0))->version, 1u);
  EXPECT_EQ(b_.server->Find(SliceId(0))->ledger, a_.server->Find(SliceId(0))->ledger);
  EXPECT_THAT(Outcomes(Offer(b_, Lane(0, 1, slices))), Each(SliceOutcome::kLate));
}

// Its workers wait, and will not push these lanes again.
TEST_F(ServerReplicasTest, AServerThatBecomesTheDecidingOneChoosesAmongTheLanesThatItHas) {
  Make({.kind = StrategyKind::kSync, .lanes = 2, .backup = 1});
  std::vector<uint32_t> slices;
  for (const SliceIncarnation& which : all_) slices.push_back(which.slice.value);
  Offer(a_, Lane(0, 2, slices));
  Offer(a_, Lane(0, 0, slices));
  // The decision is lost.
  std::erase_if(a_.forwards, [](const Forward& forward) { return !forward.request->decided.empty(); });
  Deliver();
  Promote();
  EXPECT_EQ(b_.server->Find(SliceId(0))->version, 1u);
}

TEST_F(ServerReplicasTest, WrongForwardsAreRefused) {
  Offer(a_, Push(0, {0, 1}));
  const ForwardRequest good = *a_.forwards.at(0).request;
  const auto refused = [&](auto change) {
    ForwardRequest bad = good;
    change(&bad);
    return b_.server->BeginForward(bad).code() == Code::kInvalidArgument;
  };
  EXPECT_FALSE(refused([](ForwardRequest*) {}));
  EXPECT_TRUE(refused([](ForwardRequest* f) { f->epochs.pop_back(); }));
  EXPECT_TRUE(refused([](ForwardRequest* f) { f->push.slices[1].slice = SliceId(4711); }));
  EXPECT_TRUE(refused([](ForwardRequest* f) { std::swap(f->push.slices[0], f->push.slices[1]); }));
  EXPECT_TRUE(refused([](ForwardRequest* f) { f->versions.pop_back(); }));
  EXPECT_TRUE(refused([](ForwardRequest* f) { f->push.disposition = Disposition(9); }));
  EXPECT_TRUE(refused([](ForwardRequest* f) { f->push.run = 100; }));
  EXPECT_TRUE(refused([](ForwardRequest* f) { f->push.step_lane = StepLane{}; }));
  EXPECT_TRUE(refused(
      [](ForwardRequest* f) { f->decided = {{.step = 1, .width = 2, .needed = 1, .counted = {1}}}; }));
}

}  // namespace
}  // namespace leat::protocol
