// Servers that join and leave while the job runs.
#include "protocol/coordinator/testing.h"

namespace leat::protocol {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Stage = MoveReport::Stage;

class CoordinatorMovesTest : public CoordinatorTest {
 protected:
  CoordinatorMovesTest() {
    config_.max_servers = 4;
    Start({});
  }

  // Gets the order for the next move, from one of these servers.
  std::optional<MoveOrder> Ordered(const std::vector<NodeId>& servers) {
    for (NodeId server : servers) {
      const auto reply = SendServerHeartbeat(server);
      if (reply.moves.empty()) continue;
      from_ = server;
      return reply.moves[0];
    }
    return std::nullopt;
  }
  void Report(NodeId server, uint64_t move, Stage stage) {
    move_reports_[server] = {{move, stage, stage == Stage::kFailed ? "broken" : ""}};
    SendServerHeartbeat(server);
    move_reports_.erase(server);
  }
  void Make(const MoveOrder& order) {
    Report(from_, order.id, Stage::kFrozen);
    Report(order.to, order.id, Stage::kArrived);
    SendServerHeartbeat(from_);
  }
  // Makes all moves of the plan, and returns their slices.
  std::vector<SliceIncarnation> MakeAll(const std::vector<NodeId>& servers) {
    std::vector<SliceIncarnation> moved;
    for (int i = 0; i < 100; ++i) {
      now_ += milliseconds(100);
      const auto order = Ordered(servers);
      if (!order) continue;
      EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);
      Make(*order);
      moved.insert(moved.end(), order->slices.begin(), order->slices.end());
    }
    return moved;
  }
  std::map<NodeId, size_t> Counts() const {
    std::map<NodeId, size_t> counts;
    for (const SliceLocation& slice : coordinator_->status().view.slices) ++counts[slice.server];
    return counts;
  }
  std::vector<Incarnation> Incarnations() const {
    std::vector<Incarnation> incarnations;
    for (const SliceLocation& slice : coordinator_->status().view.slices)
      incarnations.push_back(slice.incarnation);
    return incarnations;
  }

  NodeId from_;
};

TEST_F(CoordinatorMovesTest, AServerThatJoinsGetsItsShare) {
  Run();
  const auto before = Incarnations();
  const auto leases = SendHeartbeat(worker_, 2).leases;
  const NodeId c = JoinServer("c");
  const auto moved = MakeAll({a_, b_, c});
  EXPECT_THAT(moved, SizeIs(4));
  EXPECT_THAT(Counts(), ::testing::ElementsAre(std::pair(a_, 4), std::pair(b_, 4), std::pair(c, 4)));
  EXPECT_EQ(Incarnations(), before) << "they go on where they were";
  EXPECT_EQ(orders_[c].size(), 4u);
  EXPECT_EQ(orders_[a_].size(), 4u);
  const auto status = coordinator_->status();
  EXPECT_EQ(status.moves.slices, 4u);
  EXPECT_EQ(status.moves.bytes, 4 * 16 * sizeof(float));
  EXPECT_EQ(status.moves.planned, 0u);
  std::vector<uint64_t> held;
  for (const Lease& lease : leases) held.push_back(lease.id);
  EXPECT_THAT(SendHeartbeat(worker_, 0, held).revoked, IsEmpty());
}

TEST_F(CoordinatorMovesTest, AMoveIsMadeByTheServerThatHasTheSlices) {
  Run();
  const NodeId c = JoinServer("c");
  const auto order = Ordered({a_, b_});
  ASSERT_TRUE(order);
  EXPECT_EQ(order->to, c);
  EXPECT_EQ(order->address, "c");
  const SliceId slice = order->slices[0].slice;
  const auto place = [&] { return coordinator_->status().view.slices[slice.value]; };
  EXPECT_EQ(SendServerHeartbeat(c).incoming, std::vector<uint64_t>{order->id});
  Report(from_, order->id, Stage::kFrozen);
  EXPECT_EQ(place().server, from_);
  Report(from_, order->id, Stage::kArrived);
  EXPECT_EQ(place().server, from_) << "it is not the one";
  const Generation before = coordinator_->status().view.generation;
  Report(c, order->id, Stage::kArrived);
  EXPECT_EQ(place().server, c);
  EXPECT_TRUE(place().live);
  EXPECT_GT(coordinator_->status().view.generation, before);
  ASSERT_THAT(orders_[c], SizeIs(order->slices.size()));
  EXPECT_EQ(orders_[c][0].move, order->id);
  EXPECT_EQ(orders_[c][0].incarnation, order->slices[0].incarnation);
  const auto reply = SendServerHeartbeat(from_);
  EXPECT_THAT(reply.moves, IsEmpty());
  EXPECT_EQ(std::ranges::count(reply.orders, slice, &SliceOrder::slice), 0);
  EXPECT_EQ(std::ranges::count(SendServerHeartbeat(c).incoming, order->id), 0);
}

// Runs that the former server has taken are known before the move is made: its own reports end with it.
TEST_F(CoordinatorMovesTest, WhatHasArrivedIsReportedWithTheMove) {
  Run(20, 1000, true);
  const Lease lease = SendHeartbeat(worker_, 1).leases.at(0);
  const NodeId c = JoinServer("c");
  const auto order = Ordered({a_, b_});
  Report(from_, order->id, Stage::kFrozen);
  Train(lease);
  ServerHeartbeat arrived;
  arrived.node = c;
  arrived.ledgers = {{order->slices, 0, ledger_.partitions(), 0}};
  arrived.moves = {{order->id, Stage::kArrived, ""}};
  orders_[c] = std::get<ServerHeartbeatReply>(Call(arrived)).orders;
  SendServerHeartbeat(a_);
  SendServerHeartbeat(b_);
  EXPECT_EQ(coordinator_->status().watermark[0], (Position{0, 20})) << "all slices have it";
}

TEST_F(CoordinatorMovesTest, AServerThatLeavesHandsItsSlicesOver) {
  Run();
  const auto before = Incarnations();
  leaving_ = {a_};
  EXPECT_FALSE(SendServerHeartbeat(a_).stop);
  EXPECT_THAT(coordinator_->status().moves.draining, ::testing::ElementsAre(a_));
  bool stopped = false;
  for (int i = 0; i < 100 && !stopped; ++i) {
    now_ += milliseconds(100);
    const auto reply = SendServerHeartbeat(a_);
    stopped = reply.stop;
    if (reply.moves.empty()) continue;
    EXPECT_TRUE(reply.drain);
    from_ = a_;
    Report(a_, reply.moves[0].id, Stage::kFrozen);
    Report(b_, reply.moves[0].id, Stage::kArrived);
  }
  EXPECT_TRUE(stopped);
  EXPECT_EQ(coordinator_->status().view.Find(a_), nullptr);
  EXPECT_THAT(Counts(), ::testing::ElementsAre(std::pair(b_, 12)));
  EXPECT_EQ(Incarnations(), before);
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);
  EXPECT_EQ(coordinator_->status().evictions, 0u);
}

TEST_F(CoordinatorMovesTest, AServerWhoseSlicesNobodyCanTakeLeavesAtOnce) {
  Run();
  leaving_ = {a_, b_};
  EXPECT_FALSE(SendServerHeartbeat(a_).stop);
  EXPECT_TRUE(SendServerHeartbeat(b_).stop);
  EXPECT_EQ(coordinator_->status().phase, Phase::kWaitingForServers);
}

TEST_F(CoordinatorMovesTest, AnExcludedServerTakesTheSlicesIfThereIsNoOther) {
  config_.placement.exclude = {1};
  Start({});
  Run();
  EXPECT_THAT(Counts(), ::testing::ElementsAre(std::pair(a_, 12)));
  leaving_ = {a_};
  EXPECT_THAT(MakeAll({a_}), SizeIs(12));
  EXPECT_THAT(Counts(), ::testing::ElementsAre(std::pair(b_, 12)));
  const NodeId c = JoinServer("c");
  EXPECT_THAT(MakeAll({b_}), SizeIs(12));
  EXPECT_THAT(Counts(), ::testing::ElementsAre(std::pair(c, 12)));
}

TEST_F(CoordinatorMovesTest, AServerWithoutSlicesLeavesAtOnce) {
  config_.max_servers = 2;
  Start({});
  Run();
  const NodeId spare = JoinServer("c");
  EXPECT_THAT(MakeAll({a_, b_, spare}), IsEmpty()) << "the job has no place for it";
  leaving_ = {spare};
  EXPECT_TRUE(SendServerHeartbeat(spare).stop);
}

TEST_F(CoordinatorMovesTest, AMoveIsGivenUpIfOneOfItsServersIsLost) {
  for (const bool target : {true, false}) {
    SCOPED_TRACE(target);
    Start({});
    orders_.clear();
    Run();
    const NodeId c = JoinServer("c");
    const auto order = Ordered({a_, b_});
    ASSERT_TRUE(order);
    Report(from_, order->id, Stage::kFrozen);
    const auto before = Incarnations();
    Take(coordinator_->OnNodeLost(now_, target ? c : from_));
    if (target) {
      const auto reply = SendServerHeartbeat(from_);
      EXPECT_THAT(reply.moves, IsEmpty());
      EXPECT_EQ(reply.orders.size(), 6u);
      EXPECT_EQ(Incarnations(), before);
    } else {
      Report(c, order->id, Stage::kArrived);
      for (const SliceOrder& restored : orders_[c]) {
        EXPECT_EQ(restored.move, 0u) << "from the checkpoint, like all of them";
        EXPECT_GT(restored.incarnation, before[restored.slice.value]);
      }
    }
  }
}

TEST_F(CoordinatorMovesTest, AMoveThatFailsOrTakesTooLongIsRepeatedAfterAWhile) {
  Run();
  const NodeId c = JoinServer("c");
  for (const bool late : {false, true}) {
    SCOPED_TRACE(late);
    std::optional<MoveOrder> order;
    for (int i = 0; i < 100 && !order; ++i, now_ += milliseconds(100)) order = Ordered({a_, b_});
    ASSERT_TRUE(order);
    Report(from_, order->id, Stage::kFrozen);
    if (late) {
      now_ += seconds(3);
      SendServerHeartbeat(c);
    } else {
      Report(from_, order->id, Stage::kFailed);
    }
    EXPECT_THAT(SendServerHeartbeat(from_).moves, IsEmpty());
    Report(c, order->id, Stage::kArrived);
    EXPECT_THAT(orders_[c], IsEmpty()) << "the other server goes on with them";
  }
  EXPECT_EQ(coordinator_->status().moves.failed, 2u);
  now_ += seconds(15);  // workers have waited for three seconds
  EXPECT_THAT(MakeAll({a_, b_, c}), SizeIs(4));
}

TEST_F(CoordinatorMovesTest, AServerThatLacksWhatItSaidToHaveIsEvicted) {
  Run();
  const NodeId c = JoinServer("c");
  const auto order = Ordered({a_, b_});
  Make(*order);
  ServerHeartbeat heartbeat;
  heartbeat.node = c;
  heartbeat.failed = {order->slices[0]};
  EXPECT_TRUE(std::get<ServerHeartbeatReply>(Call(heartbeat)).evicted);
  EXPECT_EQ(coordinator_->status().phase, Phase::kWaitingForServers);
}

TEST_F(CoordinatorMovesTest, ACheckpointHasEachSliceOnceWhateverMoves) {
  Run();
  Admin(AdminRequest::Kind::kCheckpoint);
  Checkpoint();
  const auto a_order = SendServerHeartbeat(a_).checkpoint;
  ASSERT_TRUE(a_order);
  const NodeId c = JoinServer("c");
  EXPECT_FALSE(Ordered({a_, b_})) << "their slices are not saved yet";
  SendServerHeartbeat(a_, Saved(a_, *a_order));
  const auto order = Ordered({a_, b_});
  ASSERT_TRUE(order);
  EXPECT_EQ(from_, a_) << "it has saved them";
  Make(*order);
  EXPECT_FALSE(SendServerHeartbeat(c).checkpoint) << "nothing of it is lacking";
  SendServerHeartbeat(b_, Saved(b_, *a_order));
  const Manifest manifest = All<CommitManifest>(actions_).at(0).manifest;
  std::vector<int> copies(12, 0);
  for (const ManifestShard& shard : manifest.shards) {
    for (const SliceIncarnation& slice : shard.slices) ++copies[slice.slice.value];
  }
  EXPECT_THAT(copies, Each(1));
}

TEST_F(CoordinatorMovesTest, ACheckpointWaitsForAMoveThatIsFrozenAndNoOther) {
  Run();
  const NodeId c = JoinServer("c");
  const auto order = Ordered({a_, b_});
  Report(from_, order->id, Stage::kFrozen);
  Admin(AdminRequest::Kind::kCheckpoint);
  Checkpoint();
  EXPECT_FALSE(SendServerHeartbeat(a_).checkpoint);
  Report(c, order->id, Stage::kArrived);
  EXPECT_TRUE(SendServerHeartbeat(a_).checkpoint);
  EXPECT_TRUE(SendServerHeartbeat(c).checkpoint);

  Start({});
  orders_.clear();
  Run();
  JoinServer("c");
  const auto other = Ordered({a_, b_});
  ASSERT_TRUE(other);
  Admin(AdminRequest::Kind::kCheckpoint);
  Checkpoint();
  const auto reply = SendServerHeartbeat(from_);
  EXPECT_THAT(reply.moves, IsEmpty());
  EXPECT_TRUE(reply.checkpoint);
}

TEST_F(CoordinatorMovesTest, ALossDuringAMoveRestoresAllSlicesOfAStep) {
  config_.strategy = {.kind = StrategyKind::kSync, .lanes = 2};
  Start({});
  Run();
  const NodeId c = JoinServer("c");
  const auto order = Ordered({a_, b_});
  ASSERT_TRUE(order);
  EXPECT_EQ(order->version, 0u);
  Report(from_, order->id, Stage::kFrozen);
  const auto before = Incarnations();
  const NodeId other = from_ == a_ ? b_ : a_;
  Take(coordinator_->OnNodeLost(now_, other));
  EXPECT_THAT(SendServerHeartbeat(from_).moves, IsEmpty());
  Report(c, order->id, Stage::kArrived);
  const auto after = Incarnations();
  for (size_t i = 0; i < after.size(); ++i) EXPECT_GT(after[i], before[i]);
}

// ---- rebalancing

TEST_F(CoordinatorMovesTest, UnevenTrafficIsLevelledOnce) {
  Run();
  uint64_t total = 0;
  const auto report = [&] {
    now_ += seconds(3);
    total += 1000;
    for (NodeId server : {a_, b_}) {
      traffic_[server].clear();
      // The slices that were a_'s have eight times as much to do.
      for (const SliceOrder& order : orders_[server])
        traffic_[server].push_back({order.slice, 0, order.slice.value % 2 == 0 ? 8 * total : total});
    }
  };
  SendServerHeartbeat(a_);
  const bool by_turns =
      std::ranges::all_of(orders_[a_], [](const SliceOrder& order) { return order.slice.value % 2 == 0; });
  ASSERT_TRUE(by_turns) << "the partitioned placement of equal slices";
  size_t moved = 0;
  for (int i = 0; i < 40; ++i) {
    report();
    if (const auto order = Ordered({a_, b_})) {
      moved += order->slices.size();
      Make(*order);
    }
  }
  EXPECT_GE(moved, 1u);
  EXPECT_LE(moved, 4u);
  const auto counts = Counts();
  EXPECT_LT(counts.at(a_), counts.at(b_));
}

TEST_F(CoordinatorMovesTest, APlacementThatTheUserHasChosenIsNotLevelled) {
  config_.placement = Placement::kRoundRobin;  // a single variable: all slices are on one server
  Start({});
  Run();
  EXPECT_THAT(MakeAll({a_, b_}), IsEmpty());
  JoinServer("c");
  EXPECT_FALSE(MakeAll({a_, b_}).empty()) << "for a new server";
}

// ---- refusals

TEST_F(CoordinatorMovesTest, WrongNumbersOfServersAreRefused) {
  EXPECT_TRUE(coordinator_->CanScaleServers(1).ok());
  EXPECT_TRUE(coordinator_->CanScaleServers(4).ok());
  EXPECT_EQ(coordinator_->CanScaleServers(0).message(), "0 servers: the job needs at least 1");
  EXPECT_EQ(coordinator_->CanScaleServers(5).message(),
            "5 servers: the slices of this job were made for at most 4 (cluster.max_ps)");
  config_.placement.exclude = {0};
  Start({});
  EXPECT_EQ(coordinator_->CanScaleServers(1).message(),
            "1 server: the placement lets none of them hold slices");
  EXPECT_TRUE(coordinator_->CanScaleServers(2).ok());
  config_.placement.exclude = {};
  config_.replicas = 2;
  Start({});
  EXPECT_EQ(coordinator_->CanScaleServers(1).message(),
            "1 server: each slice of this job is on 2 servers (cluster.replicas)");
  EXPECT_TRUE(coordinator_->CanScaleServers(2).ok());
  config_.replicas = 1;
  config_.strategy = Defaults(StrategyKind::kAllReduce, 2);
  Start({});
  EXPECT_THAT(coordinator_->CanScaleServers(2).message(), HasSubstr("the job has no servers"));
}

TEST_F(CoordinatorMovesTest, OnlyAServerThatOthersCanReplaceIsDrained) {
  Run();
  EXPECT_EQ(coordinator_->DrainServer(now_, NodeId(4711)).message(), "node 4711 is no server of this job");
  EXPECT_FALSE(coordinator_->DrainServer(now_, worker_).ok());
  EXPECT_TRUE(coordinator_->DrainServer(now_, a_).ok());
  EXPECT_TRUE(coordinator_->DrainServer(now_, a_).ok()) << "it does already";
  EXPECT_TRUE(SendServerHeartbeat(a_).drain);
  EXPECT_EQ(coordinator_->DrainServer(now_, b_).message(),
            "ps 1 is the only server: nobody else can take its slices");
}

}  // namespace
}  // namespace leat::protocol
