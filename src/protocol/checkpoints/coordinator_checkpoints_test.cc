// Checkpoints, the end of the job, and recovery.
#include "protocol/coordinator/testing.h"

namespace leat::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// ---- checkpoints

TEST_F(CoordinatorTest, ACheckpointNotesTheWatermarkFirstAndHoldsEachSliceOnce) {
  Run();
  const auto leases = SendHeartbeat(worker_, 2).leases;
  Train(leases[0]);
  SendServerHeartbeat(a_);
  SendServerHeartbeat(b_);
  const uint64_t call = Admin(AdminRequest::Kind::kCheckpoint);
  Checkpoint();
  Train(leases[1]);  // after the watermark was recorded
  const auto order = SendServerHeartbeat(a_).checkpoint;
  ASSERT_TRUE(order);
  EXPECT_EQ(order->directory, "directory");
  SendServerHeartbeat(a_, Saved(a_, *order));
  EXPECT_FALSE(SendServerHeartbeat(a_).checkpoint) << "not asked again";
  EXPECT_TRUE(All<CommitManifest>(actions_).empty());
  SendServerHeartbeat(b_);
  SendServerHeartbeat(b_, Saved(b_, *order));
  const Manifest manifest = All<CommitManifest>(actions_).at(0).manifest;
  EXPECT_EQ(manifest.directory, "directory");
  EXPECT_EQ(manifest.watermark[0], leases[0].cut.next());
  ASSERT_FALSE(manifest.open.empty());
  EXPECT_EQ(manifest.open[0], leases[1].cut);
  std::vector<int> copies(12, 0);
  for (const auto& shard : manifest.shards) {
    for (const SliceIncarnation& incarnation : shard.slices) ++copies[incarnation.slice.value];
  }
  EXPECT_THAT(copies, ::testing::Each(1));
  EXPECT_FALSE(AdminAnswer(call));
  EXPECT_FALSE(coordinator_->status().checkpoint);
  Commit(manifest);
  EXPECT_TRUE(AdminAnswer(call)->ok());
  EXPECT_EQ(coordinator_->status().checkpoint, manifest.id);
  EXPECT_EQ(All<DropCheckpoints>(actions_).at(0).oldest_kept, manifest.id);
}

TEST_F(CoordinatorTest, KeepsTheConfiguredNumberOfCheckpoints) {
  Run();
  std::vector<Manifest> manifests;
  for (int i = 0; i < 4; ++i) {
    Train(SendHeartbeat(worker_, 1).leases.at(0));
    SendServerHeartbeat(a_);
    SendServerHeartbeat(b_);
    Admin(AdminRequest::Kind::kCheckpoint);
    manifests.push_back(SaveAll());
    Commit(manifests.back());
    const auto drop = All<DropCheckpoints>(actions_).at(0);
    const Manifest& oldest = manifests[i == 0 ? 0 : i - 1];
    EXPECT_EQ(drop.oldest_kept, oldest.id);
    EXPECT_EQ(drop.watermark, oldest.watermark);
  }
}

TEST_F(CoordinatorTest, ACheckpointDuringWhichASliceIsLostIsGivenUp) {
  Run();
  const uint64_t call = Admin(AdminRequest::Kind::kCheckpoint);
  Checkpoint();
  const auto order = SendServerHeartbeat(a_).checkpoint;
  SendServerHeartbeat(a_, Saved(a_, *order));
  Take(coordinator_->OnNodeLost(now_, b_));
  EXPECT_EQ(AdminAnswer(call)->code(), Code::kUnavailable);
  EXPECT_EQ(AdminAnswer(call)->message(), "a server was lost");
  EXPECT_EQ(coordinator_->status().failed_checkpoints, 1u);
  b_ = JoinServer("b2");
  SendServerHeartbeat(b_);
  EXPECT_FALSE(SendServerHeartbeat(b_).checkpoint);
  SendServerHeartbeat(b_, Saved(b_, *order));
  EXPECT_TRUE(All<CommitManifest>(actions_).empty());

  Admin(AdminRequest::Kind::kCheckpoint);
  const Manifest manifest = SaveAll();
  EXPECT_GT(manifest.id, order->id);
}

TEST_F(CoordinatorTest, ACheckpointThatFailsOrTakesTooLongIsTriedAgain) {
  config_.checkpoint_interval = seconds(10);
  Start({});
  Run();
  const auto due = [&] {
    const bool had = !All<PrepareCheckpoint>(actions_).empty();
    for (int i = 0; i < 200 && All<PrepareCheckpoint>(actions_).empty(); ++i) {
      now_ += milliseconds(100);
      SendServerHeartbeat(a_);
      if (!All<PrepareCheckpoint>(actions_).empty()) break;
      SendServerHeartbeat(b_);
      if (!All<PrepareCheckpoint>(actions_).empty()) break;
      SendHeartbeat(worker_);
      if (!All<PrepareCheckpoint>(actions_).empty()) break;
      Take(coordinator_->OnTimer(now_));
    }
    EXPECT_FALSE(had);
    return All<PrepareCheckpoint>(actions_).at(0).id;
  };
  const uint64_t first = due();
  Take(coordinator_->OnCheckpointPrepared(now_, first, Status(Code::kResourceExhausted, "full")));
  const uint64_t second = due();
  EXPECT_GT(second, first);
  Take(coordinator_->OnCheckpointPrepared(now_, first, CheckpointOrder{first, "outdated"}));
  EXPECT_FALSE(SendServerHeartbeat(a_).checkpoint);
  Take(coordinator_->OnCheckpointPrepared(now_, second, CheckpointOrder{second, "d"}));
  const auto order = SendServerHeartbeat(a_).checkpoint;
  ShardReport failed = Saved(a_, *order);
  failed.status = Status(Code::kResourceExhausted, "full");
  SendServerHeartbeat(a_, failed);
  const uint64_t third = due();
  Take(coordinator_->OnCheckpointPrepared(now_, third, CheckpointOrder{third, "d"}));
  now_ += config_.checkpoint_timeout;
  SendServerHeartbeat(a_);
  EXPECT_EQ(coordinator_->status().failed_checkpoints, 3u);
  const uint64_t fourth = due();
  EXPECT_GT(fourth, third);
  const Manifest manifest = SaveAll();
  Commit(manifest, Status(Code::kResourceExhausted, "full"));
  EXPECT_FALSE(coordinator_->status().checkpoint);
  EXPECT_EQ(coordinator_->status().failed_checkpoints, 4u);
}

// The time until the next attempt, after `failures` failed ones.
TEST_F(CoordinatorTest, FailedCheckpointsAreRemovedAndRetriedLessAndLessOften) {
  config_.checkpoint_interval = seconds(10);
  config_.heartbeat_interval = CoordinatorConfig().heartbeat_interval;
  Start({});
  Run();
  std::vector<Duration> waits;
  for (int i = 0; i < 8; ++i) {
    const Time began = now_;
    const uint64_t last = prepared_;
    while (prepared_ == last) {
      now_ += milliseconds(100);
      Take(coordinator_->OnTimer(now_));
      SendServerHeartbeat(a_);
      SendServerHeartbeat(b_);
      SendHeartbeat(worker_);
    }
    if (i > 0) waits.push_back(now_ - began);
    Take(coordinator_->OnCheckpointPrepared(now_, prepared_, Status(Code::kResourceExhausted, "no space")));
    ASSERT_EQ(All<RemoveCheckpoint>(actions_).size(), 1u);
    EXPECT_EQ(All<RemoveCheckpoint>(actions_)[0].id, prepared_);
    EXPECT_EQ(coordinator_->status().checkpoint_failure, "no space");
  }
  EXPECT_THAT(waits, ElementsAre(seconds(1), seconds(2), seconds(4), seconds(8), seconds(16), seconds(32),
                                 seconds(32)));
  Admin(AdminRequest::Kind::kCheckpoint);
  Commit(SaveAll());
  EXPECT_EQ(coordinator_->status().checkpoint_failure, "");
  EXPECT_TRUE(All<RemoveCheckpoint>(actions_).empty());
}

TEST_F(CoordinatorTest, TheStatusNamesWhatACheckpointWaitsFor) {
  Run();
  EXPECT_FALSE(coordinator_->status().saving);
  const uint64_t call = Admin(AdminRequest::Kind::kCheckpoint);
  EXPECT_EQ(coordinator_->status().saving->waiting_for, "its directory");
  EXPECT_EQ(coordinator_->status().saving->directory, "");
  Checkpoint();
  EXPECT_EQ(coordinator_->status().saving->id, prepared_);
  EXPECT_EQ(coordinator_->status().saving->directory, "directory");
  EXPECT_EQ(coordinator_->status().saving->waiting_for, "the shards of ps 0, ps 1");
  EXPECT_GE(coordinator_->status().saving->limit, config_.checkpoint_timeout);
  const auto order = SendServerHeartbeat(a_).checkpoint;
  SendServerHeartbeat(a_, Saved(a_, *order));
  EXPECT_EQ(coordinator_->status().saving->waiting_for, "the shards of ps 1");
  now_ += coordinator_->status().saving->limit;
  SendServerHeartbeat(a_);
  EXPECT_EQ(AdminAnswer(call)->message(),
            "checkpoint 1 took longer than 60 s, waiting for the shards of ps 1");
  EXPECT_FALSE(coordinator_->status().saving);
  Admin(AdminRequest::Kind::kCheckpoint);
  const Manifest manifest = SaveAll();
  EXPECT_EQ(coordinator_->status().saving->waiting_for, "its manifest");
  Commit(manifest);
  EXPECT_FALSE(coordinator_->status().saving);
}

TEST_F(CoordinatorTest, ALargeCheckpointHasMoreTime) {
  config_.table = MakeSlices({{"v", Shape{100 << 20}, {}}}, 1, 1);  // 400 MB: 1200 with the optimizer's slots
  Start({});
  Run();
  Admin(AdminRequest::Kind::kCheckpoint);
  EXPECT_EQ(All<PrepareCheckpoint>(actions_).at(0).bytes, 400u << 20);
  Checkpoint();
  const Duration time = config_.checkpoint_timeout + seconds((1200 << 20) / kSlowestDisk);
  now_ += time - milliseconds(1);
  SendServerHeartbeat(a_);
  SendServerHeartbeat(b_);
  EXPECT_EQ(coordinator_->status().failed_checkpoints, 0u);
  now_ += milliseconds(1);
  SendServerHeartbeat(a_);
  EXPECT_EQ(coordinator_->status().failed_checkpoints, 1u);
}

TEST_F(CoordinatorTest, AnEstimateOfTheSizeComesFromTheLastCheckpoint) {
  Run();
  Admin(AdminRequest::Kind::kCheckpoint);
  Manifest manifest = SaveAll();
  ASSERT_EQ(manifest.shards.size(), 2u);
  for (ManifestShard& shard : manifest.shards) shard.bytes = 1000;
  Start({manifest, journal_});
  orders_.clear();
  Run();
  Admin(AdminRequest::Kind::kCheckpoint);
  EXPECT_EQ(All<PrepareCheckpoint>(actions_).at(0).bytes, 2000u);
}

// A slice restored while the manifest is written must be restored from the new checkpoint, because the splits
// of the older one are about to be forgotten.
TEST_F(CoordinatorTest, ASliceLostDuringTheCommitReturnsFromTheNewCheckpoint) {
  Run();
  Admin(AdminRequest::Kind::kCheckpoint);
  const Manifest manifest = SaveAll();
  Take(coordinator_->OnNodeLost(now_, b_));
  b_ = JoinServer("b2");
  EXPECT_EQ(SendServerHeartbeat(b_).orders.at(0).directory, "");
  Commit(manifest);
  EXPECT_EQ(SendServerHeartbeat(b_).orders.at(0).directory, "directory");
}

TEST_F(CoordinatorTest, ALostServersSlicesReturnFromTheCheckpointAndAreFedAgain) {
  Run(40);
  const auto leases = SendHeartbeat(worker_, 2).leases;
  Train(leases[0]);
  SendServerHeartbeat(a_);
  SendServerHeartbeat(b_);
  Admin(AdminRequest::Kind::kCheckpoint);
  Commit(SaveAll());
  const Ledger saved = ledger_;
  Train(leases[1]);
  SendHeartbeat(worker_, 0, {}, {leases[0].id, leases[1].id});
  SendServerHeartbeat(a_);
  SendServerHeartbeat(b_);
  EXPECT_THAT(SendHeartbeat(worker_, 2).leases, IsEmpty());
  EXPECT_EQ(coordinator_->status().watermark[0], (Position{0, 40}));

  Take(coordinator_->OnNodeLost(now_, b_));
  EXPECT_EQ(coordinator_->status().watermark[0], (Position{0, 20}));
  b_ = JoinServer("b2");
  const auto orders = SendServerHeartbeat(b_).orders;
  EXPECT_EQ(orders.at(0).directory, "directory");
  EXPECT_EQ(orders.at(0).file.substr(0, 6), "shard-");
  const Ledger now = std::exchange(ledger_, saved);
  SendServerHeartbeat(b_);
  ledger_ = now;
  const auto again = SendHeartbeat(worker_, 2).leases;
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].cut, leases[1].cut);
}

// ---- the end

TEST_F(CoordinatorTest, AFinishedStreamEndsWithACheckpointThenAllMembersStop) {
  Run(20, 1000, true);
  const Lease lease = SendHeartbeat(worker_, 1).leases.at(0);
  Train(lease);
  SendHeartbeat(worker_, 1, {}, {lease.id});
  SendServerHeartbeat(a_);
  SendServerHeartbeat(b_);
  EXPECT_EQ(coordinator_->status().phase, Phase::kStopping);
  const Manifest manifest = SaveAll();
  EXPECT_EQ(manifest.watermark[0], (Position{0, 20}));
  EXPECT_TRUE(manifest.open.empty());
  Commit(manifest);
  EXPECT_TRUE(SendHeartbeat(worker_).stop);
  EXPECT_FALSE(Join(Role::kWorker).status.ok());
  EXPECT_TRUE(SendServerHeartbeat(a_).stop);
  EXPECT_TRUE(All<JobEnded>(actions_).empty());
  EXPECT_TRUE(SendServerHeartbeat(b_).stop);
  ASSERT_EQ(All<JobEnded>(actions_).size(), 1u);
  EXPECT_TRUE(All<JobEnded>(actions_)[0].status.ok());
  EXPECT_EQ(coordinator_->status().phase, Phase::kEnded);
  EXPECT_EQ(coordinator_->next_timer(), Time::max());
  EXPECT_TRUE(std::holds_alternative<Refusal>(Call(WorkerHeartbeat{})));
}

TEST_F(CoordinatorTest, UnreachableMembersDoNotDelayTheEndForEver) {
  Run(0, 1000, true);
  SendServerHeartbeat(a_);
  Commit(SaveAll());
  SendServerHeartbeat(a_);
  now_ += config_.heartbeat_timeout;
  Take(coordinator_->OnTimer(now_));
  EXPECT_EQ(All<JobEnded>(actions_).size(), 1u);
}

TEST_F(CoordinatorTest, AStopRevokesSavesAndEnds) {
  Run();
  const auto leases = SendHeartbeat(worker_, 2).leases;
  Train(leases[0]);
  const uint64_t call = Admin(AdminRequest::Kind::kStop);
  EXPECT_TRUE(All<PrepareCheckpoint>(actions_).empty()) << "the worker is still at it";
  auto reply = SendHeartbeat(worker_, 2, {leases[0].id, leases[1].id});
  EXPECT_THAT(reply.revoked, ElementsAre(leases[0].id, leases[1].id));
  EXPECT_THAT(reply.leases, IsEmpty());
  EXPECT_FALSE(reply.stop);
  SendServerHeartbeat(a_);
  SendServerHeartbeat(b_);
  reply = SendHeartbeat(worker_, 2);
  ASSERT_EQ(All<PrepareCheckpoint>(actions_).size(), 1u);
  const Manifest manifest = SaveAll();
  EXPECT_EQ(manifest.watermark[0], (Position{0, 20}));
  Commit(manifest);
  EXPECT_TRUE(AdminAnswer(call)->ok());
  EXPECT_TRUE(SendHeartbeat(worker_).stop);
  SendServerHeartbeat(a_);
  SendServerHeartbeat(b_);
  EXPECT_TRUE(All<JobEnded>(actions_).at(0).status.ok());
}

// The slices of b_ return from a checkpoint of the first split, when those of a_ also have a run of the
// second.
class UnevenSlicesTest : public CoordinatorTest {
 protected:
  void SetUp() override {
    Run(60);
    leases_ = SendHeartbeat(worker_, 2).leases;
    Train(leases_[0]);
    SendServerHeartbeat(a_);
    SendServerHeartbeat(b_);
    Admin(AdminRequest::Kind::kCheckpoint);
    Commit(SaveAll());
    restored_ = ledger_;
    ASSERT_EQ(ledger_.Record(leases_[1].cut, 1), Ledger::Entry::kNew);
    SendHeartbeat(worker_, 0, {}, {leases_[0].id, leases_[1].id});
    Take(coordinator_->OnNodeLost(now_, b_));
    b_ = JoinServer("b2");
    for (int i = 0; i < 4; ++i) Report();
    Admin(AdminRequest::Kind::kStop);
    ASSERT_EQ(prepared_, 1u) << "the slices differ";
  }
  void Report() {
    SendServerHeartbeat(a_);
    std::swap(ledger_, restored_);
    SendServerHeartbeat(b_);
    std::swap(ledger_, restored_);
  }
  std::vector<Lease> leases_;
  Ledger restored_;  // ledger of b_
};

TEST_F(UnevenSlicesTest, AStopTrainsWhatSomeSlicesLack) {
  const auto again = SendHeartbeat(worker_, 2).leases;
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].cut, leases_[1].cut);
  EXPECT_EQ(again[0].missing.count(), 1u) << "no slice has the other one";
  EXPECT_TRUE(again[0].missing.Has(1));
  EXPECT_THAT(SendHeartbeat(worker_, 1, {again[0].id}).revoked, IsEmpty());
  EXPECT_EQ(prepared_, 1u);
  SendServerHeartbeat(b_);  // b_ has the run now
  EXPECT_EQ(prepared_, 2u);
  EXPECT_THAT(SendHeartbeat(worker_, 1, {again[0].id}).revoked, ElementsAre(again[0].id));
  EXPECT_EQ(SaveAll().watermark[0], (Position{0, 20}));
}

TEST_F(UnevenSlicesTest, AStopWithoutAWorkerSavesWhatThereIs) {
  const Time start = now_;
  Take(coordinator_->OnNodeLost(now_, worker_));
  for (; prepared_ == 1 && now_ < start + seconds(60); now_ += milliseconds(500)) Report();
  EXPECT_EQ(prepared_, 2u);
  EXPECT_LE(now_ - start, seconds(6));
}

TEST_F(UnevenSlicesTest, AStopWaitsForAWorkerThatGetsNothingDoneForALimitedTime) {
  const Time start = now_;
  std::vector<uint64_t> held;
  for (; prepared_ == 1 && now_ < start + seconds(600); now_ += milliseconds(500)) {
    Report();
    for (const Lease& lease : SendHeartbeat(worker_, 1, held).leases) held.push_back(lease.id);
  }
  EXPECT_EQ(prepared_, 2u);
  EXPECT_GE(now_ - start, 3 * config_.checkpoint_timeout);
  EXPECT_LE(now_ - start, 3 * config_.checkpoint_timeout + seconds(1));
}

TEST_F(CoordinatorTest, AStopBeforeAnythingBeganJustEnds) {
  const NodeId worker = JoinWorker();
  Admin(AdminRequest::Kind::kStop);
  EXPECT_TRUE(SendHeartbeat(worker).stop);
  EXPECT_TRUE(All<JobEnded>(actions_).at(0).status.ok());
}

TEST_F(CoordinatorTest, AStopThatCannotSaveIsReported) {
  Run();
  Take(coordinator_->OnNodeLost(now_, a_));
  Take(coordinator_->OnNodeLost(now_, b_));
  const uint64_t call = Admin(AdminRequest::Kind::kStop);
  now_ += 3 * config_.checkpoint_timeout;
  SendHeartbeat(worker_);
  EXPECT_EQ(AdminAnswer(call)->code(), Code::kFailedPrecondition);
  EXPECT_TRUE(SendHeartbeat(worker_).stop);
  EXPECT_EQ(All<JobEnded>(actions_).at(0).status.code(), Code::kFailedPrecondition);
}

TEST_F(CoordinatorTest, AJobWithoutServersSaysWhatItWaitsFor) {
  Run();
  Take(coordinator_->OnNodeLost(now_, a_));
  EXPECT_EQ(coordinator_->status().waiting_for, "") << "the other one takes over";
  Take(coordinator_->OnNodeLost(now_, b_));
  EXPECT_EQ(coordinator_->status().waiting_for, "a parameter server: the last one, ps 1, was lost");
  JoinServer("c:3");
  EXPECT_EQ(coordinator_->status().waiting_for, "");
}

TEST_F(CoordinatorTest, ATrainedJobWaitsUntilItIsSaved) {
  Run(20, 1000, true);
  const Lease lease = SendHeartbeat(worker_, 1).leases.at(0);
  Train(lease);
  SendHeartbeat(worker_, 1, {}, {lease.id});
  SendServerHeartbeat(a_);
  SendServerHeartbeat(b_);
  const auto time = [&](Duration how_long) {
    for (const Time end = now_ + how_long; now_ < end; now_ += milliseconds(1000)) {
      if (!All<PrepareCheckpoint>(actions_).empty())
        Take(coordinator_->OnCheckpointPrepared(now_, prepared_,
                                                Status(Code::kResourceExhausted, "no space")));
      for (NodeId server : {a_, b_}) {
        if (All<PrepareCheckpoint>(actions_).empty()) SendServerHeartbeat(server);
      }
      if (All<PrepareCheckpoint>(actions_).empty()) SendHeartbeat(worker_);
    }
  };
  time(20 * config_.checkpoint_timeout);
  EXPECT_EQ(coordinator_->status().phase, Phase::kStopping);
  EXPECT_EQ(coordinator_->status().waiting_for, "the final checkpoint, which failed: no space");
  EXPECT_FALSE(SendHeartbeat(worker_).stop);
  // A stop does not wait for the next attempt, and does not give the state up either.
  const uint64_t stop = Admin(AdminRequest::Kind::kStop);
  time(20 * config_.checkpoint_timeout);
  EXPECT_FALSE(AdminAnswer(stop));
  while (All<PrepareCheckpoint>(actions_).empty()) {
    now_ += milliseconds(1000);
    SendServerHeartbeat(a_);
    if (All<PrepareCheckpoint>(actions_).empty()) SendServerHeartbeat(b_);
  }
  Commit(SaveAll());
  EXPECT_TRUE(AdminAnswer(stop)->ok());
  EXPECT_EQ(coordinator_->status().waiting_for, "");
  EXPECT_TRUE(SendHeartbeat(worker_).stop);
  SendServerHeartbeat(a_);
  SendServerHeartbeat(b_);
  EXPECT_TRUE(All<JobEnded>(actions_).at(0).finished);
}

TEST_F(CoordinatorTest, DiscardEndsAJobThatCannotBeSaved) {
  Run(20, 1000, true);
  const Lease lease = SendHeartbeat(worker_, 1).leases.at(0);
  Train(lease);
  SendHeartbeat(worker_, 1, {}, {lease.id});
  SendServerHeartbeat(a_);
  SendServerHeartbeat(b_);
  Checkpoint();
  const uint64_t discard = Admin(AdminRequest::Kind::kDiscard);
  EXPECT_TRUE(AdminAnswer(discard)->ok());
  EXPECT_EQ(All<RemoveCheckpoint>(actions_).size(), 1u);
  EXPECT_TRUE(SendHeartbeat(worker_).stop);
  EXPECT_TRUE(SendServerHeartbeat(a_).stop);
  EXPECT_TRUE(SendServerHeartbeat(b_).stop);
  EXPECT_TRUE(All<JobEnded>(actions_).at(0).status.ok());
  EXPECT_FALSE(All<JobEnded>(actions_).at(0).finished) << "its events are still needed";
}

// ---- recovery

TEST_F(CoordinatorTest, ResumesFromManifestAndJournalOnAnotherNumberOfServers) {
  Run(200);
  const auto leases = SendHeartbeat(worker_, 3).leases;
  Train(leases[0]);
  ledger_.Record(leases[2].cut, 1);
  SendServerHeartbeat(a_);
  SendServerHeartbeat(b_);
  Admin(AdminRequest::Kind::kCheckpoint);
  const Manifest manifest = SaveAll();
  Commit(manifest);
  SendHeartbeat(worker_, 8);  // more cuts after the checkpoint
  std::vector<Cut> cuts;
  for (const JournalRecord& record : journal_) {
    if (const auto* made = std::get_if<CutsMade>(&record)) {
      cuts.insert(cuts.end(), made->cuts.begin(), made->cuts.end());
    }
  }
  uint64_t last_incarnation = 0;
  for (const auto& place : coordinator_->status().view.slices)
    last_incarnation = std::max(last_incarnation, place.incarnation.value);

  config_.servers = 1;
  config_.cuts.batch_size = 3;
  config_.cuts.hash = 2;
  Start({manifest, journal_});
  orders_.clear();
  a_ = JoinServer("x");
  Stream(400, 1000);
  const auto orders = SendServerHeartbeat(a_).orders;
  ASSERT_EQ(orders.size(), 12u);
  for (const SliceOrder& order : orders) {
    EXPECT_EQ(order.directory, "directory");
    EXPECT_GT(order.incarnation.value, last_incarnation);
  }
  SendServerHeartbeat(a_);
  worker_ = JoinWorker();
  const auto again = SendHeartbeat(worker_, 20).leases;
  ASSERT_GE(again.size(), cuts.size() - 1);
  for (size_t i = 0; i + 1 < cuts.size(); ++i) EXPECT_EQ(again[i].cut, cuts[i + 1]) << "as they were";
  EXPECT_FALSE(again[1].missing.Has(1)) << "the ledgers hold it";
  const Lease& behind = again.at(cuts.size() - 1);
  EXPECT_EQ(behind.cut.after, cuts.back().next());
  EXPECT_EQ(behind.cut.batch_size, 3u) << "new rules behind the last cut";
  EXPECT_GT(again[0].id, leases.back().id);
}

TEST_F(CoordinatorTest, AJournalWithoutACheckpointStartsOver) {
  Run();
  const auto lease = SendHeartbeat(worker_, 1).leases.at(0);
  Start({std::nullopt, journal_});
  orders_.clear();
  a_ = JoinServer("a");
  b_ = JoinServer("b");
  for (int i = 0; i < 2; ++i) {
    SendServerHeartbeat(a_);
    EXPECT_EQ(orders_[a_].at(0).directory, "");
    SendServerHeartbeat(b_);
  }
  EXPECT_EQ(SendHeartbeat(JoinWorker(), 1).leases.at(0).cut, lease.cut);
}

TEST_F(CoordinatorTest, RefusesToResumeFromWhatContradicts) {
  Run();
  Admin(AdminRequest::Kind::kCheckpoint);
  const Manifest manifest = SaveAll();
  const auto refused = [&](auto change) {
    RecoveredState restored{manifest, journal_};
    change(&restored);
    try {
      Coordinator coordinator(config_, restored);
    } catch (const std::invalid_argument&) {
      return true;
    }
    return false;
  };
  EXPECT_FALSE(refused([](RecoveredState*) {}));
  EXPECT_TRUE(refused([](RecoveredState* r) { r->journal.clear(); }));
  EXPECT_TRUE(refused([](RecoveredState* r) { r->manifest->shards.pop_back(); }));
  EXPECT_TRUE(refused([](RecoveredState* r) { r->manifest->shards.push_back(r->manifest->shards[0]); }));
  EXPECT_TRUE(refused([](RecoveredState* r) { r->manifest->shards[0].slices[0].slice = SliceId(99); }));
  EXPECT_TRUE(refused([](RecoveredState* r) { r->manifest->watermark.pop_back(); }));
  EXPECT_TRUE(refused([](RecoveredState* r) { r->journal = {StreamStart{{{0, 0}}}}; }));
  config_.partitions = {1, 2};
  EXPECT_THROW(Start({}), std::invalid_argument);
}

TEST_F(CoordinatorTest, AFinishedJobThatIsResumedEndsWithoutAnotherCheckpoint) {
  Run(0, 1000, true);
  SendServerHeartbeat(a_);
  const Manifest manifest = SaveAll();
  Commit(manifest);
  Start({manifest, journal_});
  orders_.clear();
  Stream(0, 1000, true);
  a_ = JoinServer("a");
  b_ = JoinServer("b");
  for (NodeId server : {a_, b_, a_, b_}) SendServerHeartbeat(server);
  EXPECT_TRUE(All<PrepareCheckpoint>(actions_).empty());
  EXPECT_TRUE(SendServerHeartbeat(a_).stop);
}

}  // namespace
}  // namespace leat::protocol
