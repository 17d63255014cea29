// A checkpoint that is found to be damaged while the job runs: the one before takes its place.
#include "protocol/coordinator/testing.h"

namespace leat::protocol {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Status kDamaged(Code::kDataLoss, "newer/shard-1: flipped bit");

class CoordinatorDamageTest : public CoordinatorTest {
 protected:
  void SendServerHeartbeats() {
    SendServerHeartbeat(a_);
    SendServerHeartbeat(b_);
  }
  Manifest MakeCheckpoint(const std::string& directory) {
    directory_ = directory;
    Admin(AdminRequest::Kind::kCheckpoint);
    Checkpoint();
    std::optional<Manifest> saved;
    for (NodeId server : {a_, b_}) {
      const auto order = SendServerHeartbeat(server).checkpoint;
      if (!order) continue;  // it has no slices
      SendServerHeartbeat(server, Saved(server, *order));
      for (const auto& commit : All<CommitManifest>(actions_)) saved = commit.manifest;
    }
    Commit(saved.value());
    return *saved;
  }
  void LoseServer() {
    Take(coordinator_->OnNodeLost(now_, b_));
    b_ = JoinServer("b2");
    orders_[b_] = SendServerHeartbeat(b_).orders;
  }
  // A server cannot restore what it is to restore from this directory.
  ServerHeartbeatReply Fail(NodeId server, const std::string& directory) {
    ServerHeartbeat heartbeat;
    heartbeat.node = server;
    heartbeat.failure = "data loss: " + directory;
    for (const SliceOrder& order : orders_[server]) {
      if (order.directory == directory) heartbeat.failed.push_back({order.slice, order.incarnation});
    }
    const auto reply = std::get<ServerHeartbeatReply>(Call(heartbeat));
    orders_[server] = reply.orders;
    return reply;
  }
  // Until the coordinator has the checkpoint verified.
  std::optional<VerifyCheckpoint> FailUntilSuspected(const std::string& directory) {
    for (int i = 0; i < 40; ++i) {
      for (NodeId server : {b_, a_}) {
        if (Fail(server, directory).stop) return std::nullopt;
        const auto verify = All<VerifyCheckpoint>(actions_);
        if (!verify.empty()) return verify[0];
      }
    }
    return std::nullopt;
  }
  void Verified(uint64_t id, const Status& status) {
    Take(coordinator_->OnCheckpointVerified(now_, id, status));
  }
  std::vector<std::string> DirectoriesOf(NodeId server) const {
    std::vector<std::string> directories;
    for (const SliceOrder& order : orders_.at(server)) directories.push_back(order.directory);
    return directories;
  }
  Status Outcome() {
    for (NodeId server : {a_, b_}) Fail(server, "");
    SendHeartbeat(worker_);
    const auto ended = All<JobEnded>(actions_);
    return ended.empty() ? Status() : ended[0].status;
  }
};

TEST_F(CoordinatorDamageTest, LostSlicesReturnFromTheCheckpointBeforeAndAreFedAgain) {
  Run(60);
  const auto leases = SendHeartbeat(worker_, 3).leases;
  ASSERT_EQ(leases.size(), 3u);
  Train(leases[0]);
  SendServerHeartbeats();
  const Manifest older = MakeCheckpoint("older");
  const Ledger saved = ledger_;
  Train(leases[1]);
  SendHeartbeat(worker_, 0, {leases[2].id}, {leases[0].id, leases[1].id});
  SendServerHeartbeats();
  const Manifest newer = MakeCheckpoint("newer");
  Train(leases[2]);
  SendHeartbeat(worker_, 0, {}, {leases[2].id});
  SendServerHeartbeats();
  EXPECT_EQ(coordinator_->status().watermark[0], (Position{0, 60}));

  LoseServer();
  EXPECT_THAT(DirectoriesOf(b_), Each("newer"));
  const auto verify = FailUntilSuspected("newer");
  ASSERT_TRUE(verify);
  EXPECT_EQ(verify->id, newer.id);
  EXPECT_EQ(verify->before, older);
  for (int i = 0; i < 9; ++i) {
    for (NodeId server : {a_, b_}) {
      EXPECT_FALSE(Fail(server, "newer").stop) << "nobody knows yet";
      EXPECT_THAT(All<VerifyCheckpoint>(actions_), IsEmpty());
    }
  }
  Verified(newer.id, kDamaged);
  EXPECT_EQ(coordinator_->status().checkpoint, older.id);
  EXPECT_EQ(coordinator_->status().checkpoint_directory, "older");
  EXPECT_EQ(coordinator_->status().watermark[0], (Position{0, 20}));
  const Ledger now = std::exchange(ledger_, saved);
  size_t restored = 0;
  for (NodeId server : {a_, b_}) {
    Fail(server, "");
    restored += static_cast<size_t>(std::ranges::count(orders_[server], "older", &SliceOrder::directory));
    EXPECT_EQ(std::ranges::count(orders_[server], "newer", &SliceOrder::directory), 0);
    SendServerHeartbeat(server);
  }
  EXPECT_EQ(restored, 6u) << "the live slices stay as they are";
  ASSERT_EQ(coordinator_->status().phase, Phase::kRunning);
  const auto again = SendHeartbeat(worker_, 3).leases;
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].cut, leases[1].cut);
  EXPECT_EQ(again[1].cut, leases[2].cut);

  // The next checkpoint gets another number.
  ledger_ = now;
  SendServerHeartbeats();
  const Manifest next = MakeCheckpoint("next");
  EXPECT_GT(next.id, newer.id);
  EXPECT_EQ(All<DropCheckpoints>(actions_).at(0).oldest_kept, older.id);
}

TEST_F(CoordinatorDamageTest, AServerThatCannotRestoreFromAWholeCheckpointEndsTheJob) {
  Run();
  MakeCheckpoint("older");
  const Manifest newer = MakeCheckpoint("newer");
  LoseServer();
  ASSERT_TRUE(FailUntilSuspected("newer"));
  Verified(newer.id, Status());
  const Status outcome = Outcome();
  EXPECT_EQ(outcome.code(), Code::kDataLoss);
  EXPECT_THAT(outcome.message(), HasSubstr("nor on any other: data loss: newer"));
}

TEST_F(CoordinatorDamageTest, WithoutACheckpointBeforeTheJobEndsWithEachReason) {
  Run();
  const Manifest older = MakeCheckpoint("older");
  const Manifest newer = MakeCheckpoint("newer");
  LoseServer();
  ASSERT_TRUE(FailUntilSuspected("newer"));
  Verified(newer.id, kDamaged);
  for (NodeId server : {a_, b_}) Fail(server, "");
  const auto verify = FailUntilSuspected("older");
  ASSERT_TRUE(verify);
  EXPECT_EQ(verify->id, older.id);
  EXPECT_FALSE(verify->before);
  Verified(newer.id, kDamaged);  // another checkpoint than the one asked for
  EXPECT_NE(coordinator_->status().phase, Phase::kStopping);
  Verified(older.id, Status(Code::kDataLoss, "older/shard-1: is missing"));
  const Status outcome = Outcome();
  EXPECT_EQ(outcome.code(), Code::kDataLoss);
  EXPECT_EQ(outcome.message(),
            "newer/shard-1: flipped bit; the checkpoint before it cannot be used either: older/shard-1: is "
            "missing; the checkpoint before it cannot be used either: this run has made none");
}

TEST_F(CoordinatorDamageTest, InSteppedStrategiesAllSlicesReturnAndTheSameRoundsAreTrainedAgain) {
  config_.strategy.kind = StrategyKind::kSync;
  config_.strategy.lanes = 4;
  Start({});
  Run(400);
  const auto train = [&](uint64_t until, const std::vector<Lease>& leases) {
    for (; version_ < until; ++version_) {
      for (const Lease& lease : leases) {
        const uint64_t end = lease.first_step + lease.assigned.count();
        if (lease.first_step > version_ || end <= version_) continue;
        ledger_.Record(lease.cut, static_cast<uint32_t>(version_ - lease.first_step));  // new cuts
      }
    }
  };
  const auto save = [&](const std::string& directory, const std::vector<Lease>& leases) {
    directory_ = directory;
    Admin(AdminRequest::Kind::kCheckpoint);
    Checkpoint();
    const CheckpointOrder order = *SendServerHeartbeat(a_).checkpoint;
    train(order.version, leases);
    for (NodeId server : {a_, b_}) SendServerHeartbeat(server, Saved(server, order));
    const Manifest manifest = All<CommitManifest>(actions_).at(0).manifest;
    Commit(manifest);
    return manifest;
  };
  const auto rounds = [this] {
    return std::ranges::count_if(
        journal_, [](const JournalRecord& record) { return std::holds_alternative<RoundMade>(record); });
  };
  auto leases = SendHeartbeat(worker_, 2).leases;
  const Manifest older = save("older", leases);
  const Ledger saved = ledger_;
  const auto first = SendHeartbeat(worker_, 2).leases;
  ASSERT_EQ(first.at(0).first_step, older.step);
  const Manifest newer = save("newer", first);
  ASSERT_GT(newer.step, older.step);
  leases = SendHeartbeat(worker_, 2).leases;
  train(newer.step + 1, leases);
  SendServerHeartbeats();
  LoseServer();
  SendServerHeartbeat(a_);
  EXPECT_EQ(coordinator_->status().step, newer.step);
  EXPECT_THAT(DirectoriesOf(a_), Each("newer"));
  ASSERT_TRUE(FailUntilSuspected("newer"));
  const auto journaled = rounds();
  Verified(newer.id, kDamaged);
  EXPECT_EQ(coordinator_->status().step, older.step);

  ledger_ = saved;
  version_ = older.step;
  for (NodeId server : {a_, b_}) {
    Fail(server, "");
    EXPECT_THAT(DirectoriesOf(server), Each("older"));
  }
  SendServerHeartbeats();
  ASSERT_EQ(coordinator_->status().phase, Phase::kRunning);
  const auto again = SendHeartbeat(worker_, 2).leases;
  ASSERT_EQ(again.size(), first.size());
  for (size_t i = 0; i < again.size(); ++i) {
    EXPECT_EQ(again[i].first_step, first[i].first_step);
    EXPECT_EQ(again[i].lane, first[i].lane);
    EXPECT_EQ(again[i].cut, first[i].cut);
    EXPECT_EQ(again[i].missing, again[i].assigned);
  }
  EXPECT_EQ(rounds(), journaled) << "nothing new";
}

}  // namespace
}  // namespace leat::protocol
