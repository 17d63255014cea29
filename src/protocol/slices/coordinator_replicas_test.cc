// Slices on two servers, as the coordinator makes them and as it survives the loss of one of the two.
#include "protocol/coordinator/testing.h"

namespace leat::protocol {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Stage = MoveReport::Stage;

class CoordinatorReplicasTest : public CoordinatorTest {
 protected:
  CoordinatorReplicasTest() {
    config_.max_servers = 4;
    config_.replicas = 2;
    config_.term = 1;
    Start({});
    Run();
  }

  // As a server does: it reports what it has, but for slices whose replica is elsewhere; and it makes the
  // copies that are ordered, at once.
  ServerHeartbeatReply Beat(NodeId server) {
    ServerHeartbeat heartbeat;
    heartbeat.node = server;
    heartbeat.term = config_.term;
    heartbeat.generation = generations_[server];
    const ServerHeartbeatReply& had = replies_[server];
    LedgerReport report{{}, 0, ledger_.partitions(), version_};
    for (const SliceOrder& order : had.orders) {
      const bool elsewhere = std::ranges::any_of(had.replicated, [&](const ReplicaGroup& group) {
        return std::ranges::count(group.slices, order.slice, &SliceIncarnation::slice) > 0;
      });
      if (!elsewhere) report.slices.push_back({order.slice, order.incarnation});
    }
    for (const ReplicaGroup& group : had.replicas)
      report.slices.insert(report.slices.end(), group.slices.begin(), group.slices.end());
    if (arrives_ && arrives_->to == server) {
      report.slices.insert(report.slices.end(), arrives_->slices.begin(), arrives_->slices.end());
      heartbeat.moves.push_back({arrives_->id, Stage::kArrived, ""});
    }
    if (!report.slices.empty()) heartbeat.ledgers.push_back(report);
    for (const MoveOrder& order : had.moves) heartbeat.moves.push_back({order.id, Stage::kFrozen, ""});
    heartbeat.lost_replicas = std::exchange(lost_[server], {});
    heartbeat.leaving = leaving_.contains(server);
    const ControlReply answer = Call(heartbeat);
    const auto* reply = std::get_if<ServerHeartbeatReply>(&answer);
    if (reply == nullptr) return {};
    if (reply->view) generations_[server] = reply->view->generation;
    for (const MoveOrder& order : reply->moves) {
      if (order.kind != MoveOrder::Kind::kHandOver) arrives_ = order;
    }
    return replies_[server] = *reply;
  }
  void BeatAll(const std::vector<NodeId>& servers, int times = 60) {
    for (int i = 0; i < times; ++i) {
      now_ += milliseconds(100);
      for (NodeId server : servers) Beat(server);
    }
  }
  std::vector<Incarnation> Incarnations() const {
    std::vector<Incarnation> incarnations;
    for (const SliceLocation& slice : coordinator_->status().view.slices)
      incarnations.push_back(slice.incarnation);
    return incarnations;
  }
  size_t CountOn(NodeId server) const {
    const auto& slices = coordinator_->status().view.slices;
    return static_cast<size_t>(std::ranges::count(slices, server, &SliceLocation::server));
  }
  size_t ReplicasOn(NodeId server) {
    size_t count = 0;
    for (const ReplicaGroup& group : Beat(server).replicas) count += group.slices.size();
    return count;
  }
  void TakeOver() {
    ++config_.term;
    config_.take_over = true;
    Start({{}, journal_});
    Take(coordinator_->OnTimer(now_));
    Stream(100, 1000);
  }

  std::map<NodeId, ServerHeartbeatReply> replies_;
  std::map<NodeId, std::vector<LostReplica>> lost_;
  std::optional<MoveOrder> arrives_;
};

TEST_F(CoordinatorReplicasTest, EverySliceGetsOneOnAnotherServer) {
  const auto before = Incarnations();
  BeatAll({a_, b_});
  const auto status = coordinator_->status();
  EXPECT_EQ(status.replicas, 2u);
  EXPECT_EQ(status.replicated, 12u);
  EXPECT_EQ(Incarnations(), before);
  EXPECT_EQ(CountOn(a_), 6u);
  EXPECT_EQ(ReplicasOn(a_), 6u);
  EXPECT_EQ(ReplicasOn(b_), 6u);
  for (const ReplicaGroup& group : Beat(a_).replicated) {
    EXPECT_EQ(group.server, b_);
    EXPECT_EQ(group.address, "b");
    EXPECT_GT(group.epoch, 0u);
  }
  EXPECT_EQ(status.phase, Phase::kRunning);
}

class CoordinatorZonesTest : public CoordinatorReplicasTest {
 protected:
  NodeId ServerIn(const std::string& zone) {
    JoinRequest request;
    request.role = Role::kServer;
    request.address = zone + std::to_string(++joined_);
    request.place = {"north", zone, ""};
    const NodeId node = std::get<JoinReply>(Call(request)).node;
    zones_[node] = zone;
    return node;
  }
  // Counts the replicas in the zone of their slice.
  uint64_t InOneZone() {
    uint64_t slices = 0;
    for (const auto& [servers, count] : coordinator_->status().replica_servers) {
      if (zones_[servers.first] == zones_[servers.second]) slices += count;
    }
    return slices;
  }

  int joined_ = 0;
  std::map<NodeId, std::string> zones_;
};

TEST_F(CoordinatorZonesTest, AReplicaIsInAnotherZone) {
  Start({});
  Stream(100, 1000);
  std::vector<NodeId> servers{ServerIn("a"), ServerIn("a")};
  BeatAll(servers);
  EXPECT_EQ(InOneZone(), 12u) << "there is no other zone";
  EXPECT_EQ(coordinator_->status().misplaced.size(), 1u);
  servers.push_back(ServerIn("b"));
  servers.push_back(ServerIn("b"));
  BeatAll(servers, 400);
  EXPECT_EQ(coordinator_->status().replicated, 12u);
  EXPECT_EQ(InOneZone(), 0u);
  EXPECT_TRUE(coordinator_->status().misplaced.empty());
  Take(coordinator_->OnNodeLost(now_, servers[2]));
  servers.erase(servers.begin() + 2);
  BeatAll(servers, 400);
  EXPECT_EQ(coordinator_->status().replicated, 12u);
  EXPECT_EQ(InOneZone(), 0u) << "also after a loss";
}

TEST_F(CoordinatorReplicasTest, AReplicaTakesThePlaceOfALostServersSlice) {
  BeatAll({a_, b_});
  const auto before = Incarnations();
  const auto leases = SendHeartbeat(worker_, 2).leases;
  Take(coordinator_->OnNodeLost(now_, a_));
  // On disk before anybody knows.
  bool journaled = false;
  for (const AppendJournal& journal : All<AppendJournal>(actions_)) {
    const auto* placed = std::get_if<SlicesPlaced>(&journal.record);
    journaled = journaled || (placed != nullptr && placed->places.size() == 12);
  }
  EXPECT_TRUE(journaled) << "six at their new places, and six without replicas";
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);
  EXPECT_EQ(CountOn(b_), 12u);
  EXPECT_EQ(Incarnations(), before);
  EXPECT_EQ(coordinator_->status().replicated, 0u);
  const auto reply = Beat(b_);
  EXPECT_THAT(reply.orders, SizeIs(12));
  EXPECT_THAT(reply.replicas, IsEmpty());
  std::vector<uint64_t> held;
  for (const Lease& lease : leases) held.push_back(lease.id);
  EXPECT_THAT(SendHeartbeat(worker_, 0, held).revoked, IsEmpty());
  EXPECT_EQ(coordinator_->status().regranted_leases, 0u);

  const NodeId c = JoinServer("c");
  BeatAll({b_, c}, 200);
  EXPECT_EQ(coordinator_->status().replicated, 12u) << "made again on the server that has joined";
  EXPECT_EQ(CountOn(c), 6u);
}

TEST_F(CoordinatorReplicasTest, ASliceGoesOnAloneWhenItsReplicaIsLost) {
  BeatAll({a_, b_});
  Take(coordinator_->OnNodeLost(now_, b_));
  const auto reply = Beat(a_);
  EXPECT_THAT(reply.orders, SizeIs(12));
  EXPECT_THAT(reply.replicated, IsEmpty());
}

TEST_F(CoordinatorReplicasTest, AServerThatCannotReachAReplicaIsToldToGoOnAlone) {
  BeatAll({a_, b_});
  const auto groups = Beat(a_).replicated;
  ASSERT_FALSE(groups.empty());
  lost_[a_] = {{groups[0].slices[0], groups[0].epoch}};
  EXPECT_EQ(std::ranges::count(Beat(a_).replicated, groups[0].epoch, &ReplicaGroup::epoch),
            groups[0].slices.size() > 1 ? 1 : 0);
  EXPECT_EQ(coordinator_->status().replicated, 11u);
  // A report about another epoch says nothing.
  lost_[a_] = {{groups[0].slices.back(), groups[0].epoch + 1000}};
  Beat(a_);
  EXPECT_EQ(coordinator_->status().replicated, 11u);
  BeatAll({a_, b_});
  EXPECT_EQ(coordinator_->status().replicated, 12u);
}

// Lately, only the server of the replica has reported what workers were told.
TEST_F(CoordinatorReplicasTest, NothingIsLeasedAgainBeforeTheSliceHasReportedItself) {
  BeatAll({a_, b_});
  const Lease lease = SendHeartbeat(worker_, 1).leases.at(0);
  const Ledger before = ledger_;
  Train(lease);
  const Ledger after = std::exchange(ledger_, before);
  SendHeartbeat(worker_, 0, {}, {lease.id});
  Beat(a_);  // without the slices that b has replicas of
  Take(coordinator_->OnNodeLost(now_, b_));
  ledger_ = after;
  for (int i = 0; i < 3; ++i) {
    Beat(a_);
    SendHeartbeat(worker_, 1);
  }
  EXPECT_EQ(coordinator_->status().regranted_leases, 0u);
  EXPECT_EQ(coordinator_->status().watermark[0], (Position{0, 20}));
}

TEST_F(CoordinatorReplicasTest, BothAreLost) {
  BeatAll({a_, b_});
  const auto before = Incarnations();
  Take(coordinator_->OnNodeLost(now_, a_));
  Take(coordinator_->OnNodeLost(now_, b_));
  JoinServer("c");
  const auto after = Incarnations();
  for (size_t i = 0; i < after.size(); ++i) EXPECT_NE(after[i], before[i]);
}

TEST_F(CoordinatorReplicasTest, AServerThatLeavesHandsBothOver) {
  const NodeId c = JoinServer("c");
  BeatAll({a_, b_, c}, 200);
  EXPECT_EQ(coordinator_->status().replicated, 12u);
  const auto before = Incarnations();
  leaving_ = {a_};
  for (int i = 0; i < 300 && !replies_[a_].stop; ++i) BeatAll({a_, b_, c}, 1);
  EXPECT_TRUE(replies_[a_].stop);
  BeatAll({b_, c}, 100);
  EXPECT_EQ(coordinator_->status().replicated, 12u);
  EXPECT_EQ(Incarnations(), before);
  EXPECT_EQ(CountOn(b_) + CountOn(c), 12u);
}

TEST_F(CoordinatorReplicasTest, OfTwoServersTheLastOneIsLeftAlone) {
  BeatAll({a_, b_});
  const auto before = Incarnations();
  leaving_ = {a_};
  for (int i = 0; i < 300 && !replies_[a_].stop; ++i) BeatAll({a_, b_}, 1);
  EXPECT_TRUE(replies_[a_].stop);
  EXPECT_EQ(CountOn(b_), 12u);
  EXPECT_EQ(Incarnations(), before);
  EXPECT_EQ(coordinator_->status().moves.bytes, 12 * 16 * sizeof(float))
      << "the copies at the beginning alone, and those handed over without a copy";
}

TEST_F(CoordinatorReplicasTest, ThePlacesOfBothAreKeptByTheNextCoordinator) {
  BeatAll({a_, b_});
  const auto before = Incarnations();
  TakeOver();
  EXPECT_EQ(coordinator_->status().replicated, 12u);
  Beat(b_);
  EXPECT_NE(coordinator_->status().phase, Phase::kRunning) << "of a's slices, the ledgers are known alone";
  Beat(a_);
  Beat(b_);
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);
  EXPECT_EQ(Incarnations(), before);
  EXPECT_EQ(coordinator_->status().replicated, 12u);
}

TEST_F(CoordinatorReplicasTest, AServerThatDoesNotComeBackIsReplacedByItsReplicas) {
  BeatAll({a_, b_});
  const auto before = Incarnations();
  TakeOver();
  for (int i = 0; i < 60; ++i) {
    now_ += milliseconds(100);
    Take(coordinator_->OnTimer(now_));
    Beat(b_);
    SendHeartbeat(worker_);
  }
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);
  EXPECT_EQ(CountOn(b_), 12u);
  EXPECT_EQ(Incarnations(), before);
}

TEST_F(CoordinatorReplicasTest, StepsGoOnWithTheReplicasOfAServerThatDoesNotComeBack) {
  config_.strategy = {.kind = StrategyKind::kSync, .lanes = 1};
  journal_.clear();
  replies_.clear();
  orders_.clear();
  generations_.clear();
  Start({});
  Run();
  BeatAll({a_, b_});
  ASSERT_EQ(coordinator_->status().replicated, 12u);
  TakeOver();
  for (int i = 0; i < 60; ++i) {
    now_ += milliseconds(100);
    Take(coordinator_->OnTimer(now_));
    Beat(b_);
    SendHeartbeat(worker_);
  }
  EXPECT_EQ(CountOn(b_), 12u);
  EXPECT_THAT(SendHeartbeat(worker_, 2).leases, ::testing::Not(IsEmpty()));
}

// The former coordinator has journaled that the server is gone, and no more.
TEST_F(CoordinatorReplicasTest, TheNextCoordinatorCompletesWhatTheFormerOneBegan) {
  BeatAll({a_, b_});
  const auto before = Incarnations();
  journal_.push_back(MembersLeft{{a_}});
  TakeOver();
  EXPECT_EQ(CountOn(b_), 12u);
  Beat(b_);
  Beat(b_);
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);
  EXPECT_EQ(Incarnations(), before);
}

}  // namespace
}  // namespace leat::protocol
