// Slices that move between two servers, whose coordinator and network are played by the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
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

constexpr uint64_t kMove = 55;

template <class T>
std::vector<T> AllMoves(const std::vector<MoveAction>& actions) {
  std::vector<T> found;
  for (const MoveAction& action : actions) {
    if (const auto* a = std::get_if<T>(&action)) found.push_back(*a);
  }
  return found;
}

class ServerMovesTest : public TwoServersTest {
 protected:
  ServerMovesTest() { MakeServers({}); }

  // Orders the slices from a_ to b_.
  void Order(std::vector<uint32_t> slices, uint64_t version = 0) {
    MoveOrder order{kMove, b_.node, "b", {}, version};
    for (uint32_t slice : slices) order.slices.push_back({SliceId(slice), kIncarnation});
    a_.reply.moves = {order};
    b_.reply.incoming = {kMove};
    Hear(a_);
    ASSERT_THAT(AllMoves<ConnectMove>(a_.actions), SizeIs(1));
    EXPECT_EQ(AllMoves<ConnectMove>(a_.actions)[0].address, "b");
  }
  void Connect() {
    a_.server->OnMoveConnected(kMove);
    Collect(a_);
  }
  std::vector<MovedSlice> Sent() const {
    const auto sends = AllMoves<SendMove>(a_.actions);
    return sends.empty() ? std::vector<MovedSlice>() : sends[0].slices;
  }
  void Arrive(std::vector<MovedSlice> slices) {
    ASSERT_TRUE(b_.server->OnMoveArrived(kMove, std::move(slices)).ok());
    Collect(b_);
  }
  // The coordinator makes the move.
  void Decide() {
    for (const SliceIncarnation& which : a_.reply.moves.at(0).slices) {
      std::erase_if(a_.reply.orders, [&](const SliceOrder& order) { return order.slice == which.slice; });
      b_.reply.orders.push_back({which.slice, which.incarnation, "", "", 0, kMove});
    }
    a_.reply.moves.clear();
    b_.reply.incoming.clear();
    Hear(b_);
  }

  // The reply, or none if it waits under the push's sequence.
  std::optional<PushReply> Offer(Node& node, const PushRequest& request) {
    std::vector<uint64_t> elements;
    const Status begun = node.server->Begin(request, &elements);
    EXPECT_TRUE(begun.ok()) << begun.ToString();
    std::vector<SliceReply> replies;
    for (size_t i = 0; i < request.slices.size(); ++i) {
      const float number = static_cast<float>(1 + request.run + request.cut.partition);
      replies.push_back(node.server->Apply(request, i, std::vector<float>(elements[i], number)));
    }
    auto reply = node.server->Finish(request.sequence, request, std::move(replies));
    Collect(node);
    return reply;
  }
  std::vector<SliceOutcome> Outcomes(Node& node, const PushRequest& request) {
    return TwoServersTest::Outcomes(Offer(node, request));
  }
  static std::vector<MoveReport::Stage> Stages(const ServerHeartbeat& heartbeat) {
    std::vector<MoveReport::Stage> stages;
    for (const MoveReport& report : heartbeat.moves) stages.push_back(report.stage);
    return stages;
  }
};

TEST_F(ServerMovesTest, ASliceMovesWithItsLedgerAndSlots) {
  EXPECT_THAT(Outcomes(a_, Push(0, {0, 1})), Each(SliceOutcome::kApplied));
  Order({0});
  EXPECT_THAT(Outcomes(a_, Push(1, {0, 1})), Each(SliceOutcome::kApplied)) << "until there is a connection";
  Connect();
  const auto sent = Sent();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].slice->version, 2u);
  EXPECT_TRUE(a_.server->HeartbeatUrgent());
  EXPECT_THAT(Stages(Hear(a_)), ElementsAre(MoveReport::Stage::kFrozen));

  // Slice 0 waits with run 2, and answers for what it has.
  EXPECT_EQ(Offer(a_, Push(2, {0, 1})), std::nullopt);
  EXPECT_THAT(Outcomes(a_, Push(1, {0, 1})), Each(SliceOutcome::kDuplicate));
  PushRequest pull = Push(0, {0});
  pull.disposition = Disposition::kPull;
  pull.events = 0;
  EXPECT_THAT(Outcomes(a_, pull), ElementsAre(SliceOutcome::kPulled));

  Arrive(sent);
  EXPECT_TRUE(b_.server->HeartbeatUrgent());
  EXPECT_EQ(b_.server->Find(SliceId(0)), nullptr) << "without the coordinator's word";
  const ServerHeartbeat arrived = Hear(b_);
  EXPECT_THAT(Stages(arrived), ElementsAre(MoveReport::Stage::kArrived));
  ASSERT_THAT(arrived.ledgers, SizeIs(1)) << "all that the former server has taken";
  EXPECT_EQ(arrived.ledgers[0].partitions, a_.server->Find(SliceId(0))->ledger.partitions());
  EXPECT_EQ(Offer(b_, Push(2, {0})), std::nullopt) << "waits for it here, too";

  Decide();
  ASSERT_THAT(AllMoves<AnswerMove>(b_.actions), SizeIs(1));
  EXPECT_TRUE(AllMoves<AnswerMove>(b_.actions)[0].status.ok());
  EXPECT_THAT(Late(b_), ElementsAre(SliceOutcome::kMoving)) << "push it again, here";
  EXPECT_EQ(Memory(*b_.server->Find(SliceId(0))), Memory(*a_.server->Find(SliceId(0))));
  EXPECT_THAT(Outcomes(b_, Push(1, {0})), ElementsAre(SliceOutcome::kDuplicate));
  EXPECT_THAT(Outcomes(b_, Push(2, {0})), ElementsAre(SliceOutcome::kApplied));
  EXPECT_EQ(b_.server->Find(SliceId(0))->version, 3u);

  a_.server->OnMoveTaken(kMove);
  Collect(a_);
  EXPECT_THAT(Late(a_), ElementsAre(SliceOutcome::kNotHere, SliceOutcome::kApplied));
  EXPECT_THAT(Outcomes(a_, Push(3, {0, 1})), ElementsAre(SliceOutcome::kNotHere, SliceOutcome::kApplied));
  Hear(a_);
  EXPECT_EQ(a_.server->Find(SliceId(0)), nullptr);
  EXPECT_THAT(AllMoves<DropMove>(a_.actions), SizeIs(1));
  // Both have the same updates in the same order.
  EXPECT_THAT(Outcomes(b_, Push(3, {0})), ElementsAre(SliceOutcome::kApplied));
  const auto moved = b_.server->Find(SliceId(0))->values(), stayed = a_.server->Find(SliceId(1))->values();
  EXPECT_EQ(moved[0], stayed[0]);
}

TEST_F(ServerMovesTest, AMoveThatIsGivenUpChangesNothing) {
  Order({0, 3});
  Connect();
  Arrive(Sent());
  Hear(b_);
  EXPECT_EQ(Offer(a_, Push(0, {0, 1, 3})), std::nullopt);
  a_.reply.moves.clear();
  b_.reply.incoming.clear();
  Hear(a_);
  EXPECT_THAT(Late(a_), ElementsAre(SliceOutcome::kMoving, SliceOutcome::kApplied, SliceOutcome::kMoving));
  EXPECT_THAT(AllMoves<DropMove>(a_.actions), SizeIs(1));
  EXPECT_THAT(Outcomes(a_, Push(0, {0, 1, 3})),
              ElementsAre(SliceOutcome::kApplied, SliceOutcome::kDuplicate, SliceOutcome::kApplied));
  Hear(b_);
  ASSERT_THAT(AllMoves<AnswerMove>(b_.actions), SizeIs(1));
  EXPECT_EQ(AllMoves<AnswerMove>(b_.actions)[0].status.code(), Code::kAborted);
  EXPECT_THAT(Outcomes(b_, Push(1, {0})), ElementsAre(SliceOutcome::kNotHere));
}

TEST_F(ServerMovesTest, WhatHasJustArrivedIsNotDroppedByAnOlderReply) {
  b_.reply.incoming.clear();
  const ServerHeartbeat before = b_.server->MakeHeartbeat();
  Order({0});
  Connect();
  Arrive(Sent());
  ServerHeartbeatReply older = b_.reply;
  older.incoming.clear();
  b_.server->OnHeartbeatReply(older);
  Collect(b_);
  EXPECT_THAT(AllMoves<AnswerMove>(b_.actions), IsEmpty());
  Hear(b_);
  Decide();
  EXPECT_NE(b_.server->Find(SliceId(0)), nullptr);
}

TEST_F(ServerMovesTest, AnArrivalIsReportedWithTheLastPartOfTheLedgers) {
  config_.max_report_bytes = 1;
  MakeServers({});
  Order({0, 1, 2});
  Connect();
  Arrive(Sent());
  int parts = 0;
  for (bool more = true; more && parts < 100; ++parts) {
    const ServerHeartbeat heartbeat = Hear(b_);
    more = heartbeat.more;
    EXPECT_EQ(heartbeat.moves.empty(), more) << "part " << parts;
  }
  EXPECT_GE(parts, 3);
  EXPECT_LT(parts, 100);
}

TEST_F(ServerMovesTest, AFailureIsReportedAndTheSliceStaysFrozenUntilTheCoordinatorEndsIt) {
  Order({0});
  Connect();
  a_.server->OnMoveFailed(kMove, Status(Code::kUnavailable, "connection lost"));
  EXPECT_TRUE(a_.server->HeartbeatUrgent());
  EXPECT_EQ(Offer(a_, Push(0, {0})), std::nullopt);
  const ServerHeartbeat heartbeat = Hear(a_);
  EXPECT_THAT(Stages(heartbeat), ElementsAre(MoveReport::Stage::kFailed));
  EXPECT_EQ(heartbeat.moves[0].failure, "unavailable: connection lost");
  EXPECT_THAT(Late(a_), IsEmpty());
  a_.reply.moves.clear();
  Hear(a_);
  EXPECT_THAT(Late(a_), ElementsAre(SliceOutcome::kMoving));
}

TEST_F(ServerMovesTest, AnOrderForASliceThatIsNotHereFails) {
  MoveOrder order{kMove, b_.node, "b", {{SliceId(0), Incarnation(8)}}, 0};
  a_.reply.moves = {order};
  Hear(a_);
  EXPECT_THAT(Stages(Hear(a_)), ElementsAre(MoveReport::Stage::kFailed));
  order.slices = {{SliceId(4711), kIncarnation}};
  order.id = kMove + 1;
  a_.reply.moves = {order};
  Hear(a_);
  EXPECT_THAT(Stages(Hear(a_)), ElementsAre(MoveReport::Stage::kFailed));
  a_.server->OnMoveConnected(kMove + 1);
  Collect(a_);
  EXPECT_THAT(a_.actions, IsEmpty());
}

TEST_F(ServerMovesTest, ASliceThatComesBackReplacesTheOneThatHadGone) {
  Order({0});
  Connect();
  Arrive(Sent());
  Hear(b_);
  Decide();
  EXPECT_THAT(Outcomes(b_, Push(0, {0})), ElementsAre(SliceOutcome::kApplied));
  // Back to a_, which has not heard that it has lost the slice.
  b_.reply.moves = {{kMove + 1, a_.node, "a", {{SliceId(0), kIncarnation}}, 0}};
  Hear(b_);
  b_.server->OnMoveConnected(kMove + 1);
  Collect(b_);
  ASSERT_TRUE(a_.server->OnMoveArrived(kMove + 1, AllMoves<SendMove>(b_.actions).at(0).slices).ok());
  a_.reply.orders.push_back({SliceId(0), kIncarnation, "", "", 0, kMove + 1});
  Hear(a_);
  EXPECT_EQ(a_.server->Find(SliceId(0))->version, 1u);
  EXPECT_THAT(Outcomes(a_, Push(0, {0})), ElementsAre(SliceOutcome::kDuplicate));
  EXPECT_THAT(Outcomes(a_, Push(1, {0})), ElementsAre(SliceOutcome::kApplied));
}

TEST_F(ServerMovesTest, UnexpectedArrivalsAreRefused) {
  Order({0, 1});
  Connect();
  const auto sent = Sent();
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_FALSE(b_.server->OnMoveArrived(1, {}).ok());
  EXPECT_FALSE(b_.server->OnMoveArrived(1, {sent[1], sent[0]}).ok()) << "out of order";
  EXPECT_FALSE(b_.server->OnMoveArrived(1, {sent[0], sent[0]}).ok()) << "twice";
  auto wrong = std::make_shared<Slice>(*sent[0].slice);
  wrong->id = SliceId(4711);
  EXPECT_FALSE(b_.server->OnMoveArrived(1, {{wrong, 0, {}}}).ok());
  wrong->id = SliceId(0);
  wrong->ledger = Ledger(std::vector<Position>(3));
  EXPECT_FALSE(b_.server->OnMoveArrived(1, {{wrong, 0, {}}}).ok()) << "another number of partitions";
  EXPECT_FALSE(
      b_.server
          ->OnMoveArrived(1, {{sent[0].slice, 0, {{.step = 0, .width = 2, .needed = 1, .counted = {1}}}}})
          .ok())
      << "the strategy has no steps";
  int taken = 0;
  for (uint64_t move = 1; move < 20; ++move) taken += b_.server->OnMoveArrived(move, sent).ok() ? 1 : 0;
  EXPECT_LT(taken, 10) << "nobody has ordered them";
}

TEST_F(ServerMovesTest, ACheckpointHasASliceThatMovesOnce) {
  a_.reply.checkpoint = CheckpointOrder{3, "checkpoint-3"};
  const auto actions = a_.server->OnHeartbeatReply(a_.reply);
  ASSERT_THAT(actions, SizeIs(1));
  EXPECT_THAT(std::get<SaveShard>(actions[0]).slices, SizeIs(config_.table.slices.size()));
  ShardReport report;
  report.checkpoint = 3;
  a_.server->OnShardSaved(report);
  a_.reply.checkpoint.reset();
  Order({0});
  Connect();
  EXPECT_EQ(Sent().at(0).saved, 3u);
  Arrive(Sent());
  Hear(b_);
  Decide();
  for (uint64_t id : {3, 4}) {
    b_.reply.checkpoint = CheckpointOrder{id, "checkpoint"};
    const auto saves = b_.server->OnHeartbeatReply(b_.reply);
    ASSERT_THAT(saves, SizeIs(1));
    EXPECT_THAT(std::get<SaveShard>(saves[0]).slices, SizeIs(id == 3 ? 0 : 1))
        << "its former server has saved it";
    report.checkpoint = id;
    b_.server->OnShardSaved(report);
  }
}

TEST_F(ServerMovesTest, AServerThatLeavesSaysSo) {
  EXPECT_FALSE(Hear(a_).leaving);
  a_.reply.drain = true;
  Hear(a_);
  EXPECT_TRUE(a_.server->leaving());
  a_.reply.drain = false;
  EXPECT_TRUE(Hear(a_).leaving) << "whatever a new coordinator knows";
  b_.server->Leave();
  EXPECT_TRUE(b_.server->HeartbeatUrgent());
  EXPECT_TRUE(Hear(b_).leaving);
}

TEST_F(ServerMovesTest, TrafficIsReportedNowAndThen) {
  Offer(a_, Push(0, {0}));
  std::vector<SliceTraffic> traffic;
  for (int i = 0; i < 40 && traffic.empty(); ++i) traffic = Hear(a_).traffic;
  ASSERT_THAT(traffic, SizeIs(config_.table.slices.size()));
  const uint64_t bytes = config_.table.slices[0].elements() * sizeof(float);
  EXPECT_EQ(traffic[0], (SliceTraffic{SliceId(0), 1, 2 * bytes})) << "the gradient and the values";
  EXPECT_EQ(traffic[1], (SliceTraffic{SliceId(1), 0, 0}));
  EXPECT_THAT(Hear(a_).traffic, IsEmpty());
}

// ---- with steps

class StepMovesTest : public ServerMovesTest {};

TEST_F(StepMovesTest, ASliceMovesBetweenTwoSteps) {
  MakeServers({.kind = StrategyKind::kSync, .lanes = 2});
  EXPECT_THAT(Outcomes(a_, Lane(0, 0, {0, 1})), Each(SliceOutcome::kHeld));
  Order({0});
  Connect();
  EXPECT_THAT(Sent(), IsEmpty()) << "its step is half done";
  EXPECT_THAT(Outcomes(a_, Lane(0, 1, {0, 1})), Each(SliceOutcome::kApplied));
  EXPECT_THAT(Sent(), IsEmpty()) << "another slice may still need the values of step 0";
  Hear(a_);
  EXPECT_THAT(Sent(), IsEmpty());
  // A worker with the values of step 1 is the proof that none does.
  EXPECT_EQ(Offer(a_, Lane(1, 1, {0, 1})), std::nullopt);
  const auto sent = Sent();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].slice->version, 1u);
  Arrive(sent);
  Hear(b_);
  Decide();
  a_.server->OnMoveTaken(kMove);
  Collect(a_);
  EXPECT_THAT(Late(a_), ElementsAre(SliceOutcome::kNotHere, SliceOutcome::kHeld));
  EXPECT_THAT(Outcomes(b_, Lane(0, 1, {0})), ElementsAre(SliceOutcome::kDuplicate));
  EXPECT_THAT(Outcomes(b_, Lane(1, 1, {0})), ElementsAre(SliceOutcome::kHeld));
  EXPECT_THAT(Outcomes(b_, Lane(1, 0, {0})), ElementsAre(SliceOutcome::kApplied));
  EXPECT_THAT(Outcomes(a_, Lane(1, 0, {1})), ElementsAre(SliceOutcome::kApplied));
  EXPECT_EQ(b_.server->Find(SliceId(0))->values()[0], a_.server->Find(SliceId(1))->values()[0]);
  EXPECT_EQ(b_.server->Find(SliceId(0))->version, 2u);
}

TEST_F(StepMovesTest, ASliceMayComeToOthersThatAreAStepBehindOrAhead) {
  for (const uint32_t ahead : {0, 1}) {
    SCOPED_TRACE(ahead);
    MakeServers({.kind = StrategyKind::kSync, .lanes = 2});
    // b_ has slice 1, which waits for a lane of the step that slice 0 has completed, or the other way round.
    b_.reply.orders = {{SliceId(1), kIncarnation, "", "", 0}};
    std::erase_if(a_.reply.orders, [](const SliceOrder& order) { return order.slice == SliceId(1); });
    Hear(a_);
    Hear(b_);
    EXPECT_THAT(Outcomes(b_, Lane(0, 0, {1})), ElementsAre(SliceOutcome::kHeld));
    if (ahead == 1) {
      EXPECT_THAT(Outcomes(b_, Lane(0, 1, {1})), ElementsAre(SliceOutcome::kApplied));
    } else {
      Offer(a_, Lane(0, 0, {0}));
      EXPECT_THAT(Outcomes(a_, Lane(0, 1, {0})), ElementsAre(SliceOutcome::kApplied));
    }
    Order({0}, 1);
    Connect();
    Arrive(Sent());
    Hear(b_);
    Decide();
    for (uint32_t lane : {0, 1}) {
      for (uint32_t slice : {0, 1}) {
        const SliceOutcome outcome = Outcomes(b_, Lane(0, lane, {slice})).at(0);
        EXPECT_NE(outcome, SliceOutcome::kConflict) << "lane " << lane << ", slice " << slice;
      }
    }
    EXPECT_EQ(b_.server->Find(SliceId(0))->version, 1u);
    EXPECT_EQ(b_.server->Find(SliceId(1))->version, 1u);
  }
}

// A worker whose push a frozen slice refuses does not go on: no other slice of the move may wait for it.
TEST_F(StepMovesTest, SlicesThatMoveTogetherAreFrozenAtOneStep) {
  MakeServers({.kind = StrategyKind::kSync, .lanes = 2});
  for (const uint32_t lane : {0, 1}) Offer(a_, Lane(0, lane, {0}));
  Order({0, 1}, 1);
  Connect();
  EXPECT_THAT(Outcomes(a_, Lane(0, 0, {1})), ElementsAre(SliceOutcome::kHeld)) << "slice 0 is a step ahead";
  EXPECT_THAT(Outcomes(a_, Lane(0, 1, {1})), ElementsAre(SliceOutcome::kApplied));
  const auto sent = Sent();
  ASSERT_THAT(sent, SizeIs(2));
  for (const auto& one : sent) EXPECT_EQ(one.slice->version, 1u);
}

TEST_F(StepMovesTest, WithoutTrainingTheCoordinatorKnowsThatAllSlicesHaveReachedTheStep) {
  MakeServers({.kind = StrategyKind::kSync, .lanes = 1});
  EXPECT_THAT(Outcomes(a_, Lane(0, 0, {0, 1})), Each(SliceOutcome::kApplied));
  Order({0}, 0);
  Connect();
  EXPECT_THAT(Sent(), IsEmpty());
  a_.reply.moves[0].version = 1;
  Hear(a_);
  EXPECT_THAT(Sent(), SizeIs(1));
}

TEST_F(StepMovesTest, WhereStepsOverlapThoseThatHaveBegunAreCompletedFirst) {
  MakeServers({.kind = StrategyKind::kSsp, .lanes = 2, .staleness = 2});
  EXPECT_THAT(Outcomes(a_, Lane(0, 0, {0})), Each(SliceOutcome::kHeld));
  EXPECT_THAT(Outcomes(a_, Lane(1, 0, {0})), Each(SliceOutcome::kHeld));
  Order({0});
  Connect();
  EXPECT_EQ(Offer(a_, Lane(2, 0, {0})), std::nullopt) << "it would be half done for longer";
  EXPECT_THAT(Outcomes(a_, Lane(0, 1, {0})), Each(SliceOutcome::kApplied));
  EXPECT_THAT(Sent(), IsEmpty());
  EXPECT_THAT(Outcomes(a_, Lane(1, 1, {0})), Each(SliceOutcome::kApplied));
  ASSERT_THAT(Sent(), SizeIs(1));
  EXPECT_EQ(Sent()[0].slice->version, 2u);
  // Given up, it goes on where it was.
  a_.reply.moves.clear();
  Hear(a_);
  EXPECT_THAT(Late(a_), ElementsAre(SliceOutcome::kMoving));
  EXPECT_THAT(Outcomes(a_, Lane(2, 0, {0})), Each(SliceOutcome::kHeld));
}

TEST_F(StepMovesTest, TheLanesThatCountAreKnownWhereTheyAreChosenNext) {
  MakeServers({.kind = StrategyKind::kSync, .lanes = 1, .backup = 1});
  std::vector<uint32_t> all(config_.table.slices.size());
  std::iota(all.begin(), all.end(), 0u);
  const std::vector<uint32_t> others(all.begin() + 1, all.end());
  Offer(a_, Lane(0, 1, all));
  ASSERT_EQ(a_.server->Find(SliceId(0))->version, 1u);
  Order({0}, 1);
  Connect();
  const auto sent = Sent();
  ASSERT_THAT(sent, SizeIs(1));
  ASSERT_THAT(sent[0].decided, SizeIs(1));
  EXPECT_THAT(sent[0].decided[0].counted, ElementsAre(2u));
  Arrive(sent);
  Hear(b_);
  // While it moves, nobody chooses.
  EXPECT_EQ(Offer(a_, Lane(1, 0, all)), std::nullopt);
  EXPECT_EQ(a_.server->Find(SliceId(1))->version, 1u);
  Decide();
  PushRequest ask = Lane(0, 0, {0});
  ask.disposition = Disposition::kPull;
  EXPECT_THAT(Offer(b_, ask)->counted, ElementsAre(2u)) << "of step 0";
  const auto chosen = Offer(b_, Lane(1, 0, {0}));
  ASSERT_TRUE(chosen);
  EXPECT_THAT(chosen->counted, ElementsAre(1u));
  // The former server is told like all others.
  PushRequest tell = Lane(1, 0, others);
  tell.disposition = Disposition::kPull;
  tell.counted = {1};
  Offer(a_, tell);
  EXPECT_EQ(a_.server->Find(SliceId(1))->version, 2u);
}

}  // namespace
}  // namespace leat::protocol
