// Stepped strategies: rounds, leases of lanes, rollback, checkpoints and the end.
#include <array>

#include "base/rng.h"
#include "protocol/coordinator/testing.h"

namespace leat::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Batches of 10, rounds of four lanes and at most two steps.
class CoordinatorRoundsTest : public CoordinatorTest {
 protected:
  CoordinatorRoundsTest() { Sync(4); }

  void Sync(uint32_t lanes, uint32_t backup = 0) {
    config_.strategy.kind = StrategyKind::kSync;
    config_.strategy.lanes = lanes - backup;
    config_.strategy.backup = backup;
    Start({});
  }
  // The run of a step in the lease.
  static uint32_t RunOf(const Lease& lease, uint64_t step) {
    uint64_t at = lease.first_step;
    for (uint32_t run = 0; run < lease.assigned.size(); ++run) {
      if (lease.assigned.Has(run) && at++ == step) return run;
    }
    return lease.assigned.size();
  }
  static uint64_t EndOf(const Lease& lease) { return lease.first_step + lease.assigned.count(); }
  // Every slice completes the next step of the leases.
  void MakeStep(const std::vector<Lease>& leases) {
    for (const Lease& lease : leases) {
      if (lease.first_step > version_ || EndOf(lease) <= version_) continue;
      EXPECT_EQ(ledger_.Record(lease.cut, RunOf(lease, version_)), Ledger::Entry::kNew);
    }
    ++version_;
  }
  void SendServerHeartbeats() {
    SendServerHeartbeat(a_);
    SendServerHeartbeat(b_);
  }
  // Makes a round of three workers with a lane each: the last one is too late for both steps of it.
  std::vector<NodeId> MakeRoundWithoutTheLast() {
    std::vector<NodeId> workers = {worker_, JoinWorker(), JoinWorker()};
    std::vector<Lease> leases;
    for (NodeId worker : workers) {
      const auto lanes = SendHeartbeat(worker, 2).leases;
      if (worker != workers[2]) leases.insert(leases.end(), lanes.begin(), lanes.end());
    }
    for (int i = 0; i < 2; ++i) MakeStep(leases);
    SendServerHeartbeats();
    return workers;
  }
  static std::vector<uint64_t> Ids(const std::vector<Lease>& leases) {
    std::vector<uint64_t> ids;
    for (const Lease& lease : leases) ids.push_back(lease.id);
    return ids;
  }
  static std::vector<std::pair<uint64_t, uint32_t>> Locations(const std::vector<Lease>& leases) {
    std::vector<std::pair<uint64_t, uint32_t>> places;
    for (const Lease& lease : leases) places.push_back({lease.first_step, lease.lane});
    return places;
  }
  std::vector<RoundMade> Journaled() const {
    std::vector<RoundMade> rounds;
    for (const JournalRecord& record : journal_) {
      if (const auto* round = std::get_if<RoundMade>(&record)) rounds.push_back(*round);
    }
    return rounds;
  }
  // A checkpoint is requested, and its step completes.
  Manifest SaveWith(const std::vector<Lease>& leases) {
    Admin(AdminRequest::Kind::kCheckpoint);
    Checkpoint();
    const CheckpointOrder order = *SendServerHeartbeat(a_).checkpoint;
    while (version_ < order.version) MakeStep(leases);
    for (NodeId server : {a_, b_}) SendServerHeartbeat(server, Saved(server, order));
    return All<CommitManifest>(actions_).at(0).manifest;
  }

  // version and ledger of the slices on server a, if further than the others
  uint64_t other_version_ = 0;
  Ledger other_ledger_;
};

using Where = std::pair<uint64_t, uint32_t>;  // first step, lane

TEST_F(CoordinatorRoundsTest, PausesBetweenRounds) {
  config_.pause_at = 100;
  Sync(4);
  Run(400);
  const auto leases = SendHeartbeat(worker_, 1).leases;
  ASSERT_EQ(leases.size(), 8u) << "two rounds of 80 events";
  for (int step = 0; step < 4; ++step) MakeStep(leases);
  SendServerHeartbeats();
  EXPECT_THAT(SendHeartbeat(worker_, 1, {}, Ids(leases)).leases, IsEmpty());
  EXPECT_EQ(coordinator_->status().lag, 240u);
  EXPECT_EQ(coordinator_->status().phase, Phase::kPaused);
  Admin(AdminRequest::Kind::kContinue);
  EXPECT_EQ(SendHeartbeat(worker_, 1).leases.size(), 8u);
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);
}

TEST_F(CoordinatorRoundsTest, LanesAreSharedEvenlyAndRoundsJournaledFirst) {
  Run(400);
  const NodeId other = JoinWorker();
  const auto mine = SendHeartbeat(worker_, 1);
  ASSERT_TRUE(std::holds_alternative<AppendJournal>(actions_.at(0)));
  ASSERT_TRUE(std::holds_alternative<Reply>(actions_.back()));
  EXPECT_THAT(Locations(mine.leases), ElementsAre(Where(0, 0), Where(0, 1), Where(2, 0), Where(2, 1)))
      << "two rounds, though one lease was asked for";
  const auto theirs = SendHeartbeat(other, 1);
  EXPECT_THAT(Locations(theirs.leases), ElementsAre(Where(0, 2), Where(0, 3), Where(2, 2), Where(2, 3)));
  const auto rounds = Journaled();
  ASSERT_EQ(rounds.size(), 2u);
  for (const Lease& lease : theirs.leases) {
    const RoundMade& round = rounds[lease.first_step / 2];
    EXPECT_EQ(lease.cut, round.lanes[lease.lane].cut);
    EXPECT_EQ(lease.assigned, round.lanes[lease.lane].assigned);
    EXPECT_EQ(lease.missing, lease.assigned);
    EXPECT_EQ(lease.width, 4u);
    EXPECT_EQ(lease.needed, 4u);
  }
  EXPECT_THAT(SendHeartbeat(worker_, 9, Ids(mine.leases)).leases, IsEmpty());
  EXPECT_EQ(coordinator_->status().rounds, 2u);
  for (const JournalRecord& record : journal_) EXPECT_FALSE(std::holds_alternative<CutsMade>(record));
}

TEST_F(CoordinatorRoundsTest, AWorkerThatWantsNoLeaseGetsNone) {
  Run(400);
  EXPECT_THAT(SendHeartbeat(worker_, 0).leases, IsEmpty());
}

TEST_F(CoordinatorRoundsTest, TheNextRoundIsMadeWhenOneIsOver) {
  Run(400);
  const auto leases = SendHeartbeat(worker_, 2).leases;
  ASSERT_EQ(leases.size(), 8u);
  MakeStep(leases);
  SendServerHeartbeats();
  EXPECT_THAT(SendHeartbeat(worker_, 2, Ids(leases)).leases, IsEmpty());
  MakeStep(leases);
  SendServerHeartbeat(a_);
  EXPECT_EQ(coordinator_->status().step, 1u) << "one server is not all";
  SendServerHeartbeat(b_);
  EXPECT_EQ(coordinator_->status().step, 2u);
  const auto reply = SendHeartbeat(worker_, 2, Ids(leases));
  EXPECT_EQ(reply.revoked.size(), 4u) << "of the round that is over";
  EXPECT_THAT(Locations(reply.leases), ElementsAre(Where(4, 0), Where(4, 1), Where(4, 2), Where(4, 3)));
}

TEST_F(CoordinatorRoundsTest, TheNextRoundIsMadeWhenWorkersHaveEndedAllLanesOfOne) {
  Run(400);
  const auto leases = SendHeartbeat(worker_, 2).leases;
  ASSERT_EQ(leases.size(), 8u);
  std::vector<uint64_t> ended, held;
  for (const Lease& lease : leases) (lease.first_step == 0 ? ended : held).push_back(lease.id);
  held.push_back(ended.back());
  ended.pop_back();
  EXPECT_THAT(SendHeartbeat(worker_, 2, held, ended).leases, IsEmpty()) << "one lane is not";
  ended = {held.back()};
  held.pop_back();
  const auto reply = SendHeartbeat(worker_, 2, held, ended);
  EXPECT_THAT(Locations(reply.leases), ElementsAre(Where(4, 0), Where(4, 1), Where(4, 2), Where(4, 3)))
      << "before any server has reported it";
  // Released without training: what servers lack comes first.
  for (const Lease& lease : reply.leases) held.push_back(lease.id);
  for (int heartbeat = 0; heartbeat < 3; ++heartbeat) SendServerHeartbeats();
  EXPECT_EQ(coordinator_->status().step, 0u);
  EXPECT_THAT(Locations(SendHeartbeat(worker_, 2, held).leases),
              ElementsAre(Where(0, 0), Where(0, 1), Where(0, 2), Where(0, 3)));
}

TEST_F(CoordinatorRoundsTest, AsManyShortRoundsAreOpenAsTwoFullOnesHaveSteps) {
  config_.cuts.split_batches = 8;
  Start({});
  Run(110, 2230, true);
  const auto leases = SendHeartbeat(worker_, 1).leases;
  const auto rounds = Journaled();
  EXPECT_GT(rounds.size(), 2u);
  EXPECT_LT(rounds.back().first_step, 16u);
  EXPECT_GE(rounds.back().first_step + rounds.back().lanes[0].assigned.count(), 16u);
  EXPECT_EQ(leases.size(), 4 * rounds.size());
}

TEST_F(CoordinatorRoundsTest, AsManyStepsAreOpenAsWorkersMakeBetweenHeartbeats) {
  for (const uint32_t backup : {0u, 1u}) {
    config_.open_steps = 9;
    journal_.clear();
    Sync(4, backup);
    Run(400);
    EXPECT_EQ(SendHeartbeat(worker_, 1).leases.size(), 20u) << "four lanes of five rounds of two steps";
    const auto rounds = Journaled();
    ASSERT_EQ(rounds.size(), 5u);
    EXPECT_EQ(rounds.back().first_step, 8u);
  }
}

TEST_F(CoordinatorRoundsTest, AnUnclaimedLaneGoesToAnyone) {
  Run(400);
  JoinWorker();
  const auto leases = SendHeartbeat(worker_, 2).leases;
  EXPECT_EQ(leases.size(), 4u);
  now_ += config_.lane_wait - milliseconds(1);
  EXPECT_THAT(SendHeartbeat(worker_, 2, Ids(leases)).leases, IsEmpty());
  now_ += milliseconds(1);
  EXPECT_EQ(SendHeartbeat(worker_, 2, Ids(leases)).leases.size(), 4u);
}

TEST_F(CoordinatorRoundsTest, AWorkerThatJoinsTakesItsShareOfWhatOneHadAlone) {
  Run(400);
  const auto leases = SendHeartbeat(worker_, 2).leases;
  ASSERT_EQ(leases.size(), 8u);
  const NodeId other = JoinWorker();
  const auto taken = SendHeartbeat(other, 2).leases;
  EXPECT_THAT(Locations(taken), ElementsAre(Where(0, 2), Where(0, 3), Where(2, 2), Where(2, 3)));
  EXPECT_EQ(SendHeartbeat(worker_, 0, Ids(leases)).revoked.size(), 4u);
  EXPECT_THAT(SendHeartbeat(other, 2, Ids(taken)).revoked, IsEmpty());
}

TEST_F(CoordinatorRoundsTest, AThirdWorkerTakesALaneOfTheLastOne) {
  Run(400);
  const NodeId second = JoinWorker();
  const auto first = SendHeartbeat(worker_, 2).leases, last = SendHeartbeat(second, 2).leases;
  ASSERT_EQ(first.size(), 4u);
  ASSERT_EQ(last.size(), 4u);
  const NodeId third = JoinWorker();
  EXPECT_THAT(Locations(SendHeartbeat(third, 2).leases), ElementsAre(Where(0, 3), Where(2, 3)))
      << "at once, and no lane moves without need";
  EXPECT_EQ(SendHeartbeat(second, 2, Ids(last)).revoked.size(), 2u);
  EXPECT_THAT(SendHeartbeat(worker_, 2, Ids(first)).revoked, IsEmpty());
}

TEST_F(CoordinatorRoundsTest, WorkersThatJoinOneAfterTheOtherHaveALaneEach) {
  Run(400);
  std::vector<NodeId> workers = {worker_};
  std::map<NodeId, std::vector<uint64_t>> held;
  const auto beat = [&] {
    for (const NodeId worker : workers) {
      auto& held_here = held[worker];
      const auto reply = SendHeartbeat(worker, 2, held_here);
      for (const uint64_t id : reply.revoked) std::erase(held_here, id);
      for (const Lease& lease : reply.leases) held_here.push_back(lease.id);
    }
  };
  beat();
  for (size_t more = 0; more < 3; ++more) {
    workers.push_back(JoinWorker());
    for (int i = 0; i < 3; ++i) beat();
    for (const NodeId worker : workers) {
      EXPECT_GE(held[worker].size(), 2 * (4 / workers.size())) << workers.size() << " workers, two rounds";
      EXPECT_LE(held[worker].size(), 2 * ((3 + workers.size()) / workers.size()));
    }
    const auto before = held;
    beat();
    EXPECT_EQ(held, before) << "nothing moves any more";
  }
}

TEST_F(CoordinatorRoundsTest, NobodyWaitsForAWorkerThatIsNotReadyYet) {
  Run(400);
  const NodeId other = Join(Role::kWorker).node;
  const auto leases = SendHeartbeat(worker_, 2).leases;
  EXPECT_EQ(leases.size(), 8u) << "all lanes of two rounds";
  SendHeartbeat(other, 0);
  EXPECT_THAT(Locations(SendHeartbeat(other, 2).leases),
              ElementsAre(Where(0, 2), Where(0, 3), Where(2, 2), Where(2, 3)));
}

TEST_F(CoordinatorRoundsTest, ADeadWorkersLanesAreTakenOverWithTheirSteps) {
  Run(400);
  const NodeId other = JoinWorker();
  const auto mine = SendHeartbeat(worker_, 2).leases, theirs = SendHeartbeat(other, 2).leases;
  MakeStep(mine);
  --version_;
  MakeStep(theirs);
  SendServerHeartbeats();
  Take(coordinator_->OnNodeLost(now_, worker_));
  const auto taken = SendHeartbeat(other, 2, Ids(theirs)).leases;
  EXPECT_THAT(Locations(taken), ElementsAre(Where(0, 0), Where(0, 1), Where(2, 0), Where(2, 1)));
  EXPECT_EQ(taken[0].cut, mine[0].cut);
  EXPECT_FALSE(taken[0].missing.Has(0));
  EXPECT_TRUE(taken[0].missing.Has(1));
  EXPECT_EQ(taken[0].assigned, mine[0].assigned);
  EXPECT_GT(taken[0].id, mine.back().id);
  EXPECT_EQ(coordinator_->status().regranted_leases, 4u);
}

TEST_F(CoordinatorRoundsTest, TheLanesOfAWorkerThatLeavesAreOthersAtOnce) {
  Run(400);
  const NodeId other = JoinWorker();
  const auto mine = SendHeartbeat(worker_, 2).leases, theirs = SendHeartbeat(other, 2).leases;
  ASSERT_EQ(mine.size(), 4u);
  ASSERT_TRUE(coordinator_->Drain(now_, worker_).ok());
  EXPECT_THAT(SendHeartbeat(worker_, 2, Ids(mine)).leases, IsEmpty());
  WorkerHeartbeat heartbeat;
  heartbeat.node = worker_;
  heartbeat.leaving = true;
  EXPECT_TRUE(std::get<WorkerHeartbeatReply>(Call(heartbeat)).stop);
  EXPECT_THAT(Locations(SendHeartbeat(other, 2, Ids(theirs)).leases),
              ElementsAre(Where(0, 0), Where(0, 1), Where(2, 0), Where(2, 1)));
}

TEST_F(CoordinatorRoundsTest, ALaneThatWasGivenUpIsLeasedAgain) {
  Run(400);
  const auto leases = SendHeartbeat(worker_, 2).leases;
  std::vector<uint64_t> held = Ids(leases);
  held.erase(held.begin());
  EXPECT_THAT(SendHeartbeat(worker_, 2, held, {leases[0].id}).leases, IsEmpty());
  SendServerHeartbeats();
  EXPECT_THAT(SendHeartbeat(worker_, 2, held).leases, IsEmpty())
      << "servers may not have reported everything";
  SendServerHeartbeats();
  EXPECT_THAT(Locations(SendHeartbeat(worker_, 2, held).leases), ElementsAre(Where(0, 0)));
}

TEST_F(CoordinatorRoundsTest, AGrantThatWasLostIsGrantedAgain) {
  Run(400);
  const auto lost = SendHeartbeat(worker_, 2).leases;
  const auto leases = SendHeartbeat(worker_, 2).leases;
  EXPECT_EQ(Locations(leases), Locations(lost));
  EXPECT_EQ(coordinator_->status().regranted_leases, 0u);
}

// ---- lanes: auto

class AutoLanesTest : public CoordinatorRoundsTest {
 protected:
  // Two lanes, as there are workers.
  AutoLanesTest() {
    config_.strategy.auto_lanes = true;
    Sync(2);
    Begin();
  }
  void Begin() {
    orders_.clear();
    generations_.clear();
    Run(4000);
    workers_ = {worker_, JoinWorker()};
  }
  // All steps of the open rounds are made, and the next ones leased.
  void Pass(Duration time) {
    now_ += time;
    for (int round = 0; round < 2; ++round) {
      std::vector<Lease> leases;
      for (const NodeId worker : workers_) {
        auto granted = SendHeartbeat(worker, 2, {}, released_[worker]).leases;
        released_[worker] = Ids(granted);
        leases.insert(leases.end(), granted.begin(), granted.end());
      }
      const uint64_t end = leases.empty() ? version_ : EndOf(leases.back());
      while (version_ < end) MakeStep(leases);
      SendServerHeartbeats();
      SendServerHeartbeats();
    }
  }
  std::vector<LanesSet> Sets() const {
    std::vector<LanesSet> sets;
    for (const JournalRecord& record : journal_) {
      if (const auto* set = std::get_if<LanesSet>(&record)) sets.push_back(*set);
    }
    return sets;
  }

  std::vector<NodeId> workers_;
  std::map<NodeId, std::vector<uint64_t>> released_;
};

TEST_F(AutoLanesTest, FollowTheWorkersAtTheNextRound) {
  Pass(seconds(0));
  EXPECT_THAT(Sets(), ElementsAre(LanesSet{0, 2}));
  EXPECT_EQ(Journaled().back().lanes.size(), 2u);
  workers_.push_back(JoinWorker());
  Pass(seconds(0));
  Pass(seconds(2));
  EXPECT_EQ(Journaled().back().lanes.size(), 2u);
  Pass(seconds(1));
  ASSERT_EQ(Sets().size(), 2u);
  EXPECT_EQ(Sets()[1].lanes, 3u);
  EXPECT_EQ(Journaled().back().lanes.size(), 3u);
  EXPECT_EQ(coordinator_->status().lanes, 3u);
  for (const RoundMade& round : Journaled()) {
    EXPECT_EQ(round.lanes.size(), round.first_step >= Sets()[1].first_step ? 3u : 2u) << round.first_step;
    EXPECT_EQ(round.needed, round.lanes.size());
  }
  // A worker leaves for good.
  Take(coordinator_->OnNodeLost(now_, workers_.back()));
  workers_.pop_back();
  Pass(seconds(0));
  Pass(seconds(3));
  Pass(seconds(0));
  EXPECT_EQ(Sets().back().lanes, 2u);
}

TEST_F(AutoLanesTest, StayWhenAWorkerIsReplaced) {
  Pass(seconds(0));
  Pass(seconds(10));
  Take(coordinator_->OnNodeLost(now_, workers_.back()));
  workers_.pop_back();
  Pass(seconds(0));
  Pass(seconds(2));
  workers_.push_back(JoinWorker());
  for (int i = 0; i < 5; ++i) Pass(seconds(1));
  EXPECT_THAT(Sets(), ElementsAre(LanesSet{0, 2}));
}

TEST_F(AutoLanesTest, AreTheSameAfterARestart) {
  Pass(seconds(0));
  workers_.push_back(JoinWorker());
  for (int i = 0; i < 6; ++i) Pass(seconds(1));
  ASSERT_EQ(coordinator_->status().lanes, 3u);
  const auto sets = Sets();
  const auto rounds = Journaled();
  Start({std::nullopt, journal_});
  ledger_ = Ledger(std::vector<Position>{{0, 0}, {0, 1000}});
  version_ = 0;
  Begin();
  const auto lease = SendHeartbeat(worker_, 1).leases.at(0);
  EXPECT_EQ(lease.first_step, 0u);
  EXPECT_EQ(lease.width, 2u) << "the first rounds are as they were";
  EXPECT_EQ(coordinator_->status().lanes, 3u) << "of the rounds that follow";
  EXPECT_EQ(Sets(), sets);
  EXPECT_EQ(Journaled(), rounds);
}

TEST_F(AutoLanesTest, ScaleTheLearningRateOfTheirRounds) {
  config_.strategy.rate_scale = StrategyConfig::RateScale::kLinear;
  Sync(2);
  Begin();
  Pass(seconds(0));
  workers_.push_back(JoinWorker());
  for (int i = 0; i < 6; ++i) Pass(seconds(1));
  ASSERT_EQ(coordinator_->status().lanes, 3u);
  const auto lease = SendHeartbeat(worker_, 1, {}, released_[worker_]).leases.at(0);
  EXPECT_EQ(lease.width, 3u);
  EXPECT_EQ(lease.rate, 1.5f);
}

// ---- backup workers

TEST_F(CoordinatorRoundsTest, WhatWasNotInTimeIsRevokedAndComesFirstInTheNextRound) {
  Sync(3, 1);
  Run(400);
  std::vector<NodeId> workers = {worker_, JoinWorker(), JoinWorker()};
  std::vector<std::vector<Lease>> leases;
  for (NodeId worker : workers) leases.push_back(SendHeartbeat(worker, 2).leases);
  EXPECT_EQ(leases[2][0].needed, 2u);
  for (int i = 0; i < 2; ++i) {
    MakeStep(leases[0]);
    --version_;
    MakeStep(leases[1]);
  }
  SendServerHeartbeats();
  EXPECT_EQ(coordinator_->status().late, 2u);
  const auto slow = SendHeartbeat(workers[2], 2, Ids(leases[2]));
  EXPECT_THAT(slow.revoked, ElementsAre(leases[2][0].id)) << "its round is over";
  const RoundMade made = Journaled().back();
  EXPECT_EQ(made.first_step, 4u);
  EXPECT_EQ(made.lanes[0].cut, leases[2][0].cut);
  EXPECT_EQ(made.lanes[0].assigned.count(), 2u);
}

TEST_F(CoordinatorRoundsTest, TheJobEndsWhenNothingIsLeftOver) {
  Sync(2, 1);
  Run(20, 1000, true);
  const NodeId other = JoinWorker();
  const auto fast = SendHeartbeat(worker_, 2).leases, slow = SendHeartbeat(other, 2).leases;
  EXPECT_EQ(fast.at(0).assigned.count(), 1u);
  MakeStep(fast);
  SendServerHeartbeats();
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);
  EXPECT_FALSE(coordinator_->status().finished);
  const auto last = SendHeartbeat(other, 2, Ids(slow));
  EXPECT_THAT(last.revoked, ElementsAre(slow[0].id));
  now_ += config_.lane_wait;
  const auto rest = SendHeartbeat(other, 2).leases;
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].cut, slow[0].cut);
  EXPECT_EQ(rest[0].needed, 1u);
  MakeStep(rest);
  SendServerHeartbeats();
  EXPECT_TRUE(coordinator_->status().finished);
  EXPECT_EQ(coordinator_->status().phase, Phase::kStopping);
  const Manifest manifest = SaveAll();
  EXPECT_EQ(manifest.step, 2u);
  Commit(manifest);
  EXPECT_TRUE(SendHeartbeat(worker_).stop);
}

// ---- rollback

TEST_F(CoordinatorRoundsTest, WhenAServerIsLostAllSlicesReturnAndTheSameRoundsAreTrainedAgain) {
  Run(400);
  auto leases = SendHeartbeat(worker_, 2).leases;
  for (int i = 0; i < 2; ++i) MakeStep(leases);
  SendServerHeartbeats();
  const Manifest manifest = SaveWith(leases);
  EXPECT_EQ(manifest.step, 4u) << "the next round's first, of which nothing is leased";
  Commit(manifest);
  const Ledger saved = ledger_;

  leases = SendHeartbeat(worker_, 2, {}).leases;
  EXPECT_EQ(leases.at(0).first_step, 4u);
  for (int i = 0; i < 3; ++i) MakeStep(leases);
  SendServerHeartbeats();
  EXPECT_EQ(coordinator_->status().step, 7u);
  const auto rounds = Journaled();
  const auto incarnations = orders_;
  Take(coordinator_->OnNodeLost(now_, b_));
  EXPECT_EQ(coordinator_->status().step, 4u);
  EXPECT_THAT(SendHeartbeat(worker_, 2, Ids(leases)).revoked.size(), leases.size()) << "all begin anew";
  b_ = JoinServer("b2");
  ledger_ = saved;
  version_ = 4;
  for (int i = 0; i < 2; ++i) SendServerHeartbeats();
  EXPECT_GT(orders_[a_].at(0).incarnation, incarnations.at(a_).at(0).incarnation) << "also of the live one";
  EXPECT_EQ(orders_[a_].at(0).directory, "directory");
  ASSERT_EQ(coordinator_->status().phase, Phase::kRunning);
  const auto again = SendHeartbeat(worker_, 2).leases;
  EXPECT_EQ(Locations(again), Locations(leases));
  for (size_t i = 0; i < again.size(); ++i) {
    EXPECT_EQ(again[i].cut, leases[i].cut);
    EXPECT_EQ(again[i].missing, again[i].assigned);
  }
  EXPECT_EQ(Journaled(), rounds) << "nothing new";
}

// Steps are counted from the servers' reports. A server with an impossible report is ignored, and evicted as
// if it were silent.
TEST_F(CoordinatorRoundsTest, AServerThatReportsAnImpossibleStepIsIgnored) {
  Stream(400, 1000);
  a_ = JoinServer("a");
  b_ = JoinServer("b");
  SendServerHeartbeats();
  worker_ = JoinWorker();
  SendServerHeartbeat(a_);
  const std::array lies{uint64_t{1}, ~uint64_t{0} - 3, ~uint64_t{0}};
  for (size_t i = 0; coordinator_->status().evictions == 0; ++i) {
    ASSERT_LT(i, 100u);
    ServerHeartbeat heartbeat;
    heartbeat.node = b_;
    LedgerReport report{{}, 0, ledger_.partitions(), lies[i % lies.size()]};
    for (const SliceOrder& order : orders_[b_]) report.slices.push_back({order.slice, order.incarnation});
    ASSERT_FALSE(report.slices.empty());
    heartbeat.ledgers.push_back(report);
    const auto reply = Call(heartbeat);
    ASSERT_TRUE(std::holds_alternative<Refusal>(reply)) << report.version;
    EXPECT_EQ(std::get<Refusal>(reply).status.code(), Code::kInvalidArgument);
    EXPECT_THAT(std::get<Refusal>(reply).status.message(),
                HasSubstr("step " + std::to_string(report.version)));
    EXPECT_EQ(coordinator_->status().phase, Phase::kWaitingForServers);
    SendServerHeartbeat(a_);
    SendHeartbeat(worker_);
    now_ += config_.heartbeat_interval;
    Take(coordinator_->OnTimer(now_));
  }
  EXPECT_EQ(coordinator_->status().evictions, 1u);
  b_ = JoinServer("b2");
  for (int i = 0; i < 2; ++i) SendServerHeartbeats();
  ASSERT_EQ(coordinator_->status().phase, Phase::kRunning);
  EXPECT_THAT(Locations(SendHeartbeat(worker_, 2).leases),
              ElementsAre(Where(0, 0), Where(0, 1), Where(0, 2), Where(0, 3), Where(2, 0), Where(2, 1),
                          Where(2, 2), Where(2, 3)));
}

// Timing decided what later rounds consist of: they cannot be repeated.
TEST_F(CoordinatorRoundsTest, WithBackupWorkersRoundsAreMadeAnewOfTheSameCuts) {
  Sync(3, 1);
  Run(90, 1000, true);
  MakeRoundWithoutTheLast();
  EXPECT_EQ(coordinator_->status().late, 2u);
  SendHeartbeat(worker_, 2);
  ASSERT_EQ(Journaled().size(), 3u);
  EXPECT_EQ(Journaled().back().lanes.size(), 2u) << "what was late";

  const auto rounds_from_the_start = [&] {
    ledger_ = Ledger(std::vector<Position>{{0, 0}, {0, 1000}});
    version_ = 0;
    for (int i = 0; i < 2; ++i) SendServerHeartbeats();
    const size_t before = Journaled().size();
    SendHeartbeat(worker_, 2);
    const auto rounds = Journaled();
    uint32_t runs = 0;
    uint64_t step = 0;
    for (size_t i = before; i < rounds.size(); ++i) {
      EXPECT_EQ(rounds[i].first_step, step);
      step += rounds[i].lanes[0].assigned.count();
      for (const auto& part : rounds[i].lanes) {
        for (uint32_t run = 0; run < part.assigned.size(); ++run) {
          if (part.assigned.Has(run)) {
            EXPECT_EQ(ledger_.Record(part.cut, run), Ledger::Entry::kNew);
            ++runs;
          }
        }
      }
    }
    EXPECT_EQ(runs, 9u);
    EXPECT_EQ(ledger_.partitions()[0].done, (Position{0, 90}));
  };
  Take(coordinator_->OnNodeLost(now_, b_));
  b_ = JoinServer("b2");
  rounds_from_the_start();

  Start({std::nullopt, journal_});
  orders_.clear();
  generations_.clear();
  ledger_ = Ledger(std::vector<Position>{{0, 0}, {0, 1000}});
  version_ = 0;
  Run(90, 1000, true);
  rounds_from_the_start();
}

// Some slices may have recorded the runs of the next step: it must stay as it is.
TEST_F(CoordinatorRoundsTest, WithBackupWorkersRoundsGoOnUnderAnotherCoordinatorThatAwaitsNoWorkers) {
  config_.term = 1;
  Sync(3, 1);
  Run(400);
  const std::vector<NodeId> workers = MakeRoundWithoutTheLast();
  EXPECT_EQ(coordinator_->status().late, 2u) << "they would come first in a round that is made now";
  for (NodeId worker : workers) Take(coordinator_->OnNodeLost(now_, worker));
  const auto rounds = Journaled();
  ASSERT_EQ(rounds.back().first_step, 2u);

  ++config_.term;
  config_.take_over = true;
  Start({std::nullopt, journal_});
  Take(coordinator_->OnTimer(now_));
  Take(coordinator_->OnStream(now_, {{0, 0, 400, false}, {1, 1000, 1000, false}}));
  for (int i = 0; i < 2; ++i) SendServerHeartbeats();
  const auto again = SendHeartbeat(JoinWorker(), 2).leases;
  EXPECT_EQ(std::ranges::count(again, 2u, &Lease::first_step), 3);
  for (const Lease& lease : again) {
    if (lease.first_step != 2) continue;
    EXPECT_EQ(lease.cut, rounds.back().lanes[lease.lane].cut);
  }
}

TEST_F(CoordinatorRoundsTest, ARestartedCoordinatorMakesTheSameRounds) {
  Run(100, 1100, true);
  auto leases = SendHeartbeat(worker_, 2).leases;
  for (int i = 0; i < 2; ++i) MakeStep(leases);
  SendServerHeartbeats();
  leases = SendHeartbeat(worker_, 2, Ids(leases)).leases;
  const auto rounds = Journaled();
  ASSERT_GE(rounds.size(), 3u);

  Start({std::nullopt, journal_});
  orders_.clear();
  generations_.clear();
  ledger_ = Ledger(std::vector<Position>{{0, 0}, {0, 1000}});
  version_ = 0;
  Run(100, 1100, true);
  const auto again = SendHeartbeat(worker_, 2).leases;
  ASSERT_EQ(again.size(), 8u);
  for (const Lease& lease : again) EXPECT_EQ(lease.cut, rounds[lease.first_step / 2].lanes[lease.lane].cut);
  EXPECT_EQ(Journaled(), rounds);
}

TEST_F(CoordinatorRoundsTest, DoesNotGoOnFromACheckpointThatIsNotOfAStep) {
  config_.strategy = {};
  Start({});
  Run();
  Train(SendHeartbeat(worker_, 1).leases.at(0));
  Admin(AdminRequest::Kind::kCheckpoint);
  Manifest manifest = SaveAll();
  manifest.events = 20;
  config_.strategy.kind = StrategyKind::kSync;
  EXPECT_THROW(Start({manifest, journal_}), std::invalid_argument);
}

// ---- checkpoints

TEST_F(CoordinatorRoundsTest, NothingIsLeasedFromACheckpointsStepOnBeforeServersKnowOfIt) {
  Run(400);
  auto leases = SendHeartbeat(worker_, 2).leases;
  Admin(AdminRequest::Kind::kCheckpoint);
  Checkpoint();
  for (int i = 0; i < 2; ++i) MakeStep(leases);
  // As for a server whose replies are lost.
  const auto old = generations_;
  EXPECT_EQ(SendServerHeartbeat(a_).checkpoint->version, 4u);
  EXPECT_EQ(SendServerHeartbeat(b_).checkpoint->version, 4u);
  EXPECT_THAT(SendHeartbeat(worker_, 2, Ids(leases)).leases, IsEmpty());
  generations_ = old;
  SendServerHeartbeats();
  EXPECT_THAT(SendHeartbeat(worker_, 2, Ids(leases)).leases, IsEmpty());
  SendServerHeartbeat(a_);
  EXPECT_THAT(SendHeartbeat(worker_, 2, Ids(leases)).leases, IsEmpty()) << "one of them";
  SendServerHeartbeat(b_);
  EXPECT_EQ(SendHeartbeat(worker_, 2, Ids(leases)).leases.size(), 4u);
}

TEST_F(CoordinatorRoundsTest, ACheckpointWaitsForItsStepAsLongAsItTakes) {
  config_.checkpoint_timeout = seconds(20);
  Start({});
  Run(400);
  const auto leases = SendHeartbeat(worker_, 2).leases;
  const uint64_t call = Admin(AdminRequest::Kind::kCheckpoint);
  Checkpoint();
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 3; ++k) {
      now_ += seconds(20);
      SendServerHeartbeats();
      SendHeartbeat(worker_, 2, Ids(leases));
    }
    MakeStep(leases);
  }
  EXPECT_EQ(coordinator_->status().failed_checkpoints, 0u);
  const auto order = SendServerHeartbeat(a_).checkpoint;
  SendServerHeartbeat(a_, Saved(a_, *order));
  now_ += seconds(19);
  SendServerHeartbeat(b_);
  EXPECT_FALSE(AdminAnswer(call));
  now_ += seconds(20);
  SendServerHeartbeat(a_);
  EXPECT_EQ(coordinator_->status().failed_checkpoints, 1u) << "it was there, and was not saved";
}

// ---- the end

TEST_F(CoordinatorRoundsTest, AStopFinishesTheStepThatSomeSlicesHave) {
  Run(400);
  const auto leases = SendHeartbeat(worker_, 2).leases;
  SendServerHeartbeats();
  const Ledger before = ledger_;
  MakeStep(leases);
  SendServerHeartbeat(a_);
  ledger_ = before;
  --version_;
  SendServerHeartbeat(b_);
  const uint64_t call = Admin(AdminRequest::Kind::kStop);
  const auto server_beats = [&] {
    std::swap(version_, other_version_);
    std::swap(ledger_, other_ledger_);
    SendServerHeartbeat(a_);
    std::swap(version_, other_version_);
    std::swap(ledger_, other_ledger_);
    SendServerHeartbeat(b_);
  };
  other_version_ = version_ + 1;
  other_ledger_ = ledger_;
  for (const Lease& lease : leases) {
    if (lease.first_step == 0) other_ledger_.Record(lease.cut, 0);
  }
  EXPECT_EQ(SendHeartbeat(worker_, 2, Ids(leases)).revoked.size(), 8u);
  EXPECT_THAT(SendHeartbeat(worker_, 2).leases, IsEmpty());
  server_beats();
  EXPECT_THAT(SendHeartbeat(worker_, 2).leases, IsEmpty()) << "servers may not have reported everything";
  server_beats();
  const auto rest = SendHeartbeat(worker_, 2).leases;
  ASSERT_THAT(Locations(rest), ElementsAre(Where(0, 0), Where(0, 1), Where(0, 2), Where(0, 3)));
  for (const Lease& lease : rest) EXPECT_EQ(lease.missing.count(), 1u) << "of the one step";
  EXPECT_TRUE(All<PrepareCheckpoint>(actions_).empty());
  MakeStep(leases);
  other_version_ = version_;
  other_ledger_ = ledger_;
  server_beats();
  const Manifest manifest = SaveAll();
  EXPECT_EQ(manifest.step, 1u);
  Commit(manifest);
  EXPECT_TRUE(AdminAnswer(call)->ok());

  // And on from the middle of a round.
  Start({manifest, journal_});
  orders_.clear();
  generations_.clear();
  Run(400);
  const auto again = SendHeartbeat(worker_, 2).leases;
  ASSERT_EQ(again.size(), 8u);
  EXPECT_EQ(again[0].cut, leases[0].cut);
  EXPECT_EQ(again[0].first_step, 0u);
  EXPECT_FALSE(again[0].missing.Has(0));
  EXPECT_TRUE(again[0].missing.Has(1));
}

TEST_F(CoordinatorRoundsTest, AStopTakesTheCheckpointUnderWayWithIt) {
  Run(400);
  const auto leases = SendHeartbeat(worker_, 2).leases;
  const uint64_t call = Admin(AdminRequest::Kind::kCheckpoint);
  Checkpoint();
  SendServerHeartbeats();
  Admin(AdminRequest::Kind::kStop);
  SendHeartbeat(worker_, 2, Ids(leases));
  SendHeartbeat(worker_, 2);
  for (int i = 0; i < 3; ++i) SendServerHeartbeats();
  const Manifest manifest = SaveAll();
  EXPECT_EQ(manifest.step, 0u);
  Commit(manifest);
  EXPECT_TRUE(AdminAnswer(call)->ok());
}

TEST_F(CoordinatorRoundsTest, FiveGradientsInARowThatAreNotFiniteEndTheJob) {
  Run(400);
  const auto leases = SendHeartbeat(worker_, 2).leases;
  Commit(SaveWith(leases));
  ServerHeartbeat heartbeat;
  heartbeat.node = a_;
  heartbeat.consecutive_rejected = 4;
  heartbeat.rejected = {worker_, leases[1].cut, 1};
  EXPECT_FALSE(std::get<ServerHeartbeatReply>(Call(heartbeat)).stop);
  heartbeat.consecutive_rejected = 5;
  EXPECT_TRUE(std::get<ServerHeartbeatReply>(Call(heartbeat)).stop);
  EXPECT_TRUE(SendHeartbeat(worker_).stop);
  EXPECT_TRUE(All<PrepareCheckpoint>(actions_).empty()) << "the good ones stay";
  EXPECT_TRUE(SendServerHeartbeat(b_).stop);
  const auto ended = All<JobEnded>(actions_);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].status.code(), Code::kFailedPrecondition);
  const Cut& cut = leases[1].cut;
  EXPECT_THAT(std::string(ended[0].status.message()),
              HasSubstr("5 gradients in a row were not finite: the last by worker 0 (node " +
                        ToString(worker_) + "), partition " + std::to_string(cut.partition) + " offsets " +
                        std::to_string(cut.begin.offset + 10) + " to " +
                        std::to_string(cut.begin.offset + 20) + "; lower the learning rate"));
}

// ---- any demand

// The rounds of a sealed stream depend on the stream alone.
TEST_F(CoordinatorRoundsTest, RoundsAreTheSameForAnyNumberOfWorkersAndAnyDemand) {
  std::vector<RoundMade> first;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    config_.cuts.split_batches = 6;
    config_.cuts.epochs = 2;
    Start({});
    journal_.clear();
    orders_.clear();
    generations_.clear();
    ledger_ = Ledger(std::vector<Position>{{0, 0}, {0, 1000}});
    version_ = 0;
    Run(333, 1555, true);
    std::vector<NodeId> workers = {worker_};
    std::map<NodeId, std::vector<Lease>> held;
    for (int i = 0; coordinator_->status().phase == Phase::kRunning; ++i) {
      ASSERT_LT(i, 100000);
      now_ += milliseconds(rng.Below(200));
      if (workers.size() < 5 && rng.Chance(0.05)) workers.push_back(JoinWorker());
      if (workers.size() > 1 && rng.Chance(0.03)) {
        held.erase(workers.back());
        Take(coordinator_->OnNodeLost(now_, workers.back()));
        workers.pop_back();
      }
      const NodeId worker = workers[rng.Below(workers.size())];
      auto& held_here = held[worker];
      const auto reply = SendHeartbeat(worker, static_cast<uint32_t>(rng.Below(3)), Ids(held_here));
      std::erase_if(held_here, [&](const Lease& lease) {
        return std::find(reply.revoked.begin(), reply.revoked.end(), lease.id) != reply.revoked.end();
      });
      held_here.insert(held_here.end(), reply.leases.begin(), reply.leases.end());
      if (rng.Chance(0.4)) SendServerHeartbeats();
      // A step is complete when all its lanes are leased.
      std::map<uint32_t, Lease> lanes;
      uint32_t width = 1;
      for (const auto& [node, leases] : held) {
        for (const Lease& lease : leases) {
          if (lease.first_step > version_ || EndOf(lease) <= version_) continue;
          lanes[lease.lane] = lease;
          width = lease.width;
        }
      }
      if (lanes.size() < width || !rng.Chance(0.7)) continue;
      for (const auto& [lane, lease] : lanes) ledger_.Record(lease.cut, RunOf(lease, version_));
      ++version_;
    }
    if (seed == 1) first = Journaled();
    EXPECT_EQ(Journaled(), first);
    EXPECT_TRUE(coordinator_->status().finished);
  }
  EXPECT_GT(first.size(), 5u);
}

}  // namespace
}  // namespace leat::protocol
