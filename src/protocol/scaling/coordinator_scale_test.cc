// Commands: how many members are wanted, members that are to leave, pauses.
#include <gmock/gmock.h>

#include "protocol/coordinator/testing.h"

namespace leat::protocol {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;
using Kind = AdminRequest::Kind;

class CoordinatorScaleTest : public CoordinatorTest {
 protected:
  CoordinatorScaleTest() {
    config_.workers = 2;
    config_.max_servers = 4;
    Start({});
  }
  Status Ask(const AdminRequest& request) {
    const ControlReply reply = Call(request);
    if (const auto* refusal = std::get_if<Refusal>(&reply)) return refusal->status;
    return std::get<AdminReply>(reply).status;
  }
  Status Scale(std::optional<WorkerRange> workers, std::optional<uint32_t> servers = {}) {
    return Ask({.kind = Kind::kScale, .workers = workers, .servers = servers});
  }
  Status Drain(Role role, uint32_t index) {
    return Ask({.kind = Kind::kDrain, .role = role, .index = index});
  }
  std::pair<std::string, uint32_t> Wanted() const {
    const auto wanted = coordinator_->status().wanted;
    return {ToString(wanted.workers), wanted.servers};
  }
  std::vector<ScaleSet> Journaled() const {
    std::vector<ScaleSet> found;
    for (const JournalRecord& record : journal_) {
      if (const auto* set = std::get_if<ScaleSet>(&record)) found.push_back(*set);
    }
    return found;
  }
  std::vector<NodeId> Draining() const {
    std::vector<NodeId> found;
    for (const Member& member : coordinator_->status().view.members) {
      if (member.state == Member::State::kDraining) found.push_back(member.node);
    }
    return found;
  }
  NodeId JoinStandby() {
    JoinRequest request{.role = Role::kWorker};
    request.standby = true;
    const NodeId node = std::get<JoinReply>(Call(request)).node;
    SendHeartbeat(node);
    return node;
  }
  Member::State StateOf(NodeId node) const {
    const View view = coordinator_->status().view;
    return view.Find(node)->state;
  }
  bool Before(auto is_first) const {  // the answer
    const auto answer = std::ranges::find_if(actions_, [this](const CoordinatorAction& action) {
      const auto* reply = std::get_if<Reply>(&action);
      return reply != nullptr && reply->call == last_call_;
    });
    return std::ranges::any_of(actions_.begin(), answer, is_first);
  }
  void ServersReport() {
    for (int i = 0; i < 2; ++i) {
      SendServerHeartbeat(a_);
      SendServerHeartbeat(b_);
    }
  }
  // With a term, and one worker that has leases of two rounds, of two steps each.
  std::vector<Lease> BeginSync() {
    config_.strategy = {.kind = StrategyKind::kSync, .lanes = 2};
    config_.term = 1;
    Start({});
    Run(800);
    const auto leases = SendHeartbeat(worker_, 1).leases;
    EXPECT_EQ(leases.size(), 4u);
    return leases;
  }
  // The former coordinator is gone; its journal is all that there is.
  void TakeOver() {
    ++config_.term;
    config_.take_over = config_.keep_scale = true;
    Restart();
    Take(coordinator_->OnTimer(now_));
    Stream(800, 1000);
  }
  std::vector<Lease> Return(const std::vector<Lease>& held) {
    WorkerHeartbeat heartbeat;
    heartbeat.node = worker_;
    heartbeat.term = config_.term;
    heartbeat.leases_wanted = 1;
    for (const Lease& lease : held) {
      heartbeat.held.push_back(lease.id);
      heartbeat.claims.push_back(
          {lease.id, lease.cut.partition, lease.cut.begin, lease.first_step, lease.lane});
    }
    return std::get<WorkerHeartbeatReply>(Call(heartbeat)).leases;
  }
  // The state after a restart.
  void Restart() {
    RecoveredState restored;
    restored.journal = journal_;
    Start(std::move(restored));
  }
};

TEST_F(CoordinatorScaleTest, WantedNumbersAreSetAndJournaledBeforeTheAnswer) {
  EXPECT_EQ(Wanted(), std::pair(std::string("2"), 2u)) << "as the job says";
  EXPECT_EQ(Scale(WorkerRange{2, 8}), Status());
  ASSERT_TRUE(std::holds_alternative<AppendJournal>(actions_.at(0)));
  EXPECT_EQ(Wanted(), std::pair(std::string("2:8"), 2u));
  EXPECT_EQ(coordinator_->status().wanted.now(), 0u) << "the autoscaler's";
  EXPECT_EQ(Scale({}, 4), Status());
  EXPECT_EQ(Wanted(), std::pair(std::string("2:8"), 4u));
  EXPECT_EQ(Scale(WorkerRange{5, 5}, 1), Status());
  EXPECT_EQ(coordinator_->status().wanted.now(), 5u);
  EXPECT_THAT(Journaled(), ElementsAre(ScaleSet{{2, 8}, 2}, ScaleSet{{2, 8}, 4}, ScaleSet{{5, 5}, 1}));
  EXPECT_EQ(Scale(WorkerRange{5, 5}), Status());
  EXPECT_EQ(Journaled().size(), 3u) << "nothing is new";
}

TEST_F(CoordinatorScaleTest, WantedNumbersSurviveARestartUnlessTheUserSetsOthers) {
  EXPECT_EQ(Scale(WorkerRange{3, 6}, 1), Status());
  config_.keep_scale = true;
  Restart();
  EXPECT_EQ(Wanted(), std::pair(std::string("3:6"), 1u));
  Stream(100, 1000);
  EXPECT_FALSE(SendServerHeartbeat(JoinServer("a")).orders.empty()) << "the second one is not wanted";
  config_.keep_scale = false;
  Restart();
  EXPECT_EQ(Wanted(), std::pair(std::string("2"), 2u));
  Stream(100, 1000);
  EXPECT_THAT(SendServerHeartbeat(JoinServer("a")).orders, IsEmpty()) << "waits for the second one";
  config_.keep_scale = true;
  config_.workers = 7;
  Restart();
  EXPECT_EQ(Wanted(), std::pair(std::string("2"), 2u)) << "what the user has set is kept from then on";
}

TEST_F(CoordinatorScaleTest, ARestartWaitsForNoServersThatMayNeverCome) {
  EXPECT_EQ(Scale({}, 4), Status());
  config_.keep_scale = true;
  Restart();
  EXPECT_EQ(Wanted().second, 4u);
  Stream(100, 1000);
  const NodeId first = JoinServer("a"), second = JoinServer("b");
  for (const NodeId server : {first, second}) EXPECT_FALSE(SendServerHeartbeat(server).orders.empty());
}

TEST_F(CoordinatorScaleTest, SlicesArePlacedOnFewerServersThanThePlacementNames) {
  for (const bool weighted : {false, true}) {
    SCOPED_TRACE(weighted);
    config_.placement = weighted ? Placement::kWeighted : Placement::kPartitioned;
    if (weighted) config_.placement.weights = {2, 3};
    if (!weighted) config_.placement.exclude = {1};
    config_.keep_scale = false;
    journal_.clear();
    orders_.clear();
    Start({});
    Stream(100, 1000);
    EXPECT_THAT(SendServerHeartbeat(JoinServer("a")).orders, IsEmpty()) << "waits for the second one";
    EXPECT_EQ(Scale({}, 1), Status());
    EXPECT_EQ(SendServerHeartbeat(coordinator_->status().view.members[0].node).orders.size(), 12u);
    config_.keep_scale = true;
    Restart();
    Stream(100, 1000);
    EXPECT_EQ(SendServerHeartbeat(JoinServer("a")).orders.size(), 12u);
    EXPECT_NE(coordinator_->status().phase, Phase::kStopping);
  }
}

TEST_F(CoordinatorScaleTest, ImpossibleNumbersAreRefusedInOneLine) {
  config_.placement.exclude = {0};
  Start({});
  for (const auto& [workers, servers, part] :
       {std::tuple{std::optional<WorkerRange>({0, 0}), std::optional<uint32_t>(),
                   "1 to 10000 workers, not 0"},
        {WorkerRange{0, 3}, std::nullopt, "not 0:3"},
        {WorkerRange{4, 3}, std::nullopt, "not 4:3"},
        {WorkerRange{1, 10'001}, std::nullopt, "not 1:10001"},
        {std::nullopt, 0, "0 servers: the job needs at least 1"},
        {std::nullopt, 5, "5 servers: the slices of this job were made for at most 4 (cluster.max_ps)"},
        {std::nullopt, 1, "1 server: the placement lets none of them hold slices"},
        {WorkerRange{3, 3}, 9, "9 servers"}}) {
    const Status refused = Scale(workers, servers);
    EXPECT_EQ(refused.code(), Code::kInvalidArgument) << part;
    EXPECT_THAT(refused.message(), HasSubstr(part));
    EXPECT_EQ(refused.message().find('\n'), std::string::npos);
  }
  EXPECT_EQ(Wanted(), std::pair(std::string("2"), 2u)) << "nothing is set in part";
  EXPECT_THAT(Journaled(), IsEmpty());
}

TEST_F(CoordinatorScaleTest, WithoutServersThereIsLessToScale) {
  config_.strategy = Defaults(StrategyKind::kAllReduce, 2);
  config_.servers = 0;
  Start({});
  EXPECT_EQ(Scale(WorkerRange{2, 8}), Status());
  EXPECT_THAT(Scale(WorkerRange{1, 8}).message(), HasSubstr("allreduce needs 2 or more workers, not 1:8"));
  EXPECT_THAT(Scale({}, 1).message(), HasSubstr("the job has no servers"));
  config_.strategy.mpi = true;
  Start({});
  const Status refused = Scale(WorkerRange{3, 3});
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("mpirun has started all 2 of them"));
}

TEST_F(CoordinatorScaleTest, ADrainedWorkerGetsNoLeasesAndIsAskedToLeave) {
  Run(400);
  const NodeId other = JoinWorker();
  const auto leases = SendHeartbeat(other, 2).leases;
  ASSERT_EQ(leases.size(), 2u);
  EXPECT_EQ(Drain(Role::kWorker, 1), Status());
  EXPECT_THAT(Draining(), ElementsAre(other));
  EXPECT_EQ(coordinator_->status().wanted.now(), 1u) << "or another one would be started";
  EXPECT_EQ(Drain(Role::kWorker, 1), Status()) << "once more";
  const auto reply = SendHeartbeat(other, 2, {leases[0].id, leases[1].id});
  EXPECT_TRUE(reply.drain);
  EXPECT_THAT(reply.leases, IsEmpty());
  EXPECT_THAT(reply.revoked, IsEmpty()) << "it gives them back by itself";
  EXPECT_FALSE(SendHeartbeat(worker_).drain);
  WorkerHeartbeat last;
  last.node = other;
  last.released = {leases[0].id, leases[1].id};
  last.leaving = true;
  EXPECT_TRUE(std::get<WorkerHeartbeatReply>(Call(last)).stop);
  EXPECT_THAT(Draining(), IsEmpty());
  SendServerHeartbeat(a_);
  SendServerHeartbeat(b_);
  EXPECT_GE(SendHeartbeat(worker_, 64).leases.size(), 2u) << "the others train what it had";
  EXPECT_EQ(Drain(Role::kWorker, 0), Status()) << "the last one may leave, too";
  EXPECT_EQ(coordinator_->status().wanted.now(), 1u) << "and another one is wanted";
}

TEST_F(CoordinatorScaleTest, OneLessIsWantedForEachThatIsDrained) {
  Run(400);
  JoinWorker();
  EXPECT_EQ(Scale(WorkerRange{5, 5}), Status());
  EXPECT_EQ(Drain(Role::kWorker, 1), Status());
  EXPECT_EQ(Drain(Role::kWorker, 1), Status()) << "once more";
  EXPECT_EQ(Wanted().first, "4") << "three more are still wanted";
  JoinWorker();
  JoinWorker();
  EXPECT_EQ(Scale(WorkerRange{2, 2}), Status());
  EXPECT_EQ(Drain(Role::kWorker, 2), Status());
  EXPECT_EQ(Wanted().first, "2") << "two are left";
}

TEST_F(CoordinatorScaleTest, AWorkerThatStandsByTakesThePlaceOfOneThatIsDrained) {
  Run(400);
  JoinWorker();
  const NodeId standby = JoinStandby();
  EXPECT_EQ(StateOf(standby), Member::State::kStandby);
  EXPECT_EQ(Drain(Role::kWorker, 0), Status()) << "not standby 0";
  EXPECT_THAT(Draining(), ElementsAre(worker_));
  EXPECT_EQ(StateOf(standby), Member::State::kActive);
  EXPECT_EQ(Wanted().first, "2");
  EXPECT_EQ(Drain(Role::kWorker, 1), Status());
  EXPECT_EQ(Wanted().first, "1") << "nobody stands by any more";
}

TEST_F(CoordinatorScaleTest, WorkersThatStandByTakeThePlacesThatAreWanted) {
  Run(400);
  JoinWorker();
  const NodeId first = JoinStandby(), second = JoinStandby(), third = JoinStandby();
  EXPECT_EQ(Scale(WorkerRange{3, 3}), Status());
  EXPECT_EQ(StateOf(first), Member::State::kActive);
  EXPECT_EQ(StateOf(second), Member::State::kStandby);
  EXPECT_EQ(Scale(WorkerRange{2, 8}), Status());
  SendHeartbeat(worker_);
  EXPECT_EQ(StateOf(second), Member::State::kStandby) << "the autoscaler has not chosen yet";
  coordinator_->SetChosen(4);
  SendHeartbeat(worker_);
  EXPECT_EQ(StateOf(second), Member::State::kActive);
  EXPECT_EQ(StateOf(third), Member::State::kStandby);
  EXPECT_EQ(Scale(WorkerRange{5, 8}), Status());
  EXPECT_EQ(StateOf(third), Member::State::kActive) << "at least";
}

TEST_F(CoordinatorScaleTest, TheAutoscalersNumberStays) {
  Run(400);
  EXPECT_EQ(Scale(WorkerRange{1, 4}), Status());
  JoinWorker();
  EXPECT_EQ(Drain(Role::kWorker, 1), Status());
  EXPECT_EQ(Wanted().first, "1:4");
}

TEST_F(CoordinatorScaleTest, AServerLeavesIfAnotherOneStays) {
  Run(400);
  EXPECT_EQ(Drain(Role::kServer, 1), Status());
  EXPECT_EQ(Wanted().second, 1u);
  EXPECT_TRUE(SendServerHeartbeat(b_).drain);
  EXPECT_FALSE(SendServerHeartbeat(a_).drain);
  const Status refused = Drain(Role::kServer, 0);
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("ps 0 is the only server"));
}

TEST_F(CoordinatorScaleTest, UnknownMembersAreRefused) {
  Run(400);
  Join(Role::kBots);
  Join(Role::kCoordinator, "standby");
  for (const auto& [role, index, part] : {std::tuple{Role::kWorker, 7u, "no worker 7"},
                                          {Role::kServer, 2u, "no ps 2"},
                                          {Role::kFeed, 0u, "no feed 0"},
                                          {Role::kBots, 0u, "no bots 0"},
                                          {Role::kCoordinator, 0u, "no standby 0"}}) {
    const Status refused = Drain(role, index);
    EXPECT_EQ(refused.code(), Code::kNotFound);
    EXPECT_THAT(refused.message(), HasSubstr(part));
  }
}

TEST_F(CoordinatorScaleTest, MpiKeepsItsWorkers) {
  config_.strategy = Defaults(StrategyKind::kAllReduce, 2);
  config_.strategy.mpi = true;
  config_.servers = 0;
  Start({});
  JoinRequest join{.role = Role::kWorker, .address = "a:1", .mpi = MpiRank{0, 2}};
  ASSERT_TRUE(std::get<JoinReply>(Call(join)).status.ok());
  const Status refused = Drain(Role::kWorker, 0);
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("MPI"));
}

// ---- pauses

TEST_F(CoordinatorScaleTest, APausedJobLeasesNothingAndCanBeSaved) {
  Run(400);
  const auto leases = SendHeartbeat(worker_, 2).leases;
  ASSERT_EQ(leases.size(), 2u);
  EXPECT_EQ(Ask({.kind = Kind::kPause}), Status());
  EXPECT_EQ(coordinator_->status().phase, Phase::kPaused);
  const auto held = SendHeartbeat(worker_, 2, {leases[0].id, leases[1].id});
  EXPECT_THAT(held.leases, IsEmpty());
  EXPECT_THAT(held.revoked, IsEmpty()) << "what has begun is finished";
  EXPECT_FALSE(held.drain || held.stop);
  for (const Lease& lease : leases) Train(lease);
  EXPECT_THAT(SendHeartbeat(worker_, 2, {}, {leases[0].id, leases[1].id}).leases, IsEmpty());
  Admin(Kind::kCheckpoint);
  Commit(SaveAll());
  EXPECT_EQ(coordinator_->status().checkpoint, 1u);
  // The leases of a lost worker wait, too.
  Take(coordinator_->OnNodeLost(now_, worker_));
  worker_ = JoinWorker();
  EXPECT_THAT(SendHeartbeat(worker_, 2).leases, IsEmpty());
  Admin(Kind::kContinue);
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);
  EXPECT_EQ(SendHeartbeat(worker_, 2).leases.size(), 2u);
  EXPECT_THAT(Journaled(), ElementsAre(ScaleSet{{2, 2}, 2, true}, ScaleSet{{2, 2}, 2, false}));
}

TEST_F(CoordinatorScaleTest, APauseSurvivesARestart) {
  Run(400);
  EXPECT_EQ(Ask({.kind = Kind::kPause}), Status());
  Restart();
  Run(400);
  EXPECT_EQ(coordinator_->status().phase, Phase::kPaused);
  EXPECT_THAT(SendHeartbeat(worker_, 2).leases, IsEmpty());
  Admin(Kind::kContinue);
  EXPECT_EQ(SendHeartbeat(worker_, 2).leases.size(), 2u);
}

TEST_F(CoordinatorScaleTest, ACoordinatorThatTakesOverKeepsWhatCommandsHaveSet) {
  config_.term = 1;
  Start({});
  Run(400);
  const NodeId other = JoinWorker();
  EXPECT_EQ(Scale(WorkerRange{5, 5}), Status());
  EXPECT_EQ(Drain(Role::kWorker, 1), Status());
  EXPECT_EQ(Ask({.kind = Kind::kPause}), Status());
  config_.term = 2;
  config_.take_over = config_.keep_scale = true;
  Restart();
  Stream(400, 1000);
  EXPECT_EQ(Wanted().first, "4");
  EXPECT_THAT(Draining(), ElementsAre(other));
  for (int i = 0; i < 2; ++i) {
    SendServerHeartbeat(a_);
    SendServerHeartbeat(b_);
  }
  EXPECT_EQ(coordinator_->status().phase, Phase::kPaused);
  EXPECT_TRUE(SendHeartbeat(other, 2).drain);
  EXPECT_THAT(SendHeartbeat(worker_, 2).leases, IsEmpty());
  Admin(Kind::kContinue);
  EXPECT_EQ(SendHeartbeat(worker_, 2).leases.size(), 2u);
  EXPECT_THAT(SendHeartbeat(other, 2).leases, IsEmpty());
}

TEST_F(CoordinatorScaleTest, APauseThatIsReachedLastsAsLongAsTheRun) {
  config_.term = 1;
  config_.pause_at = 50;
  Start({});
  Run(400);
  ASSERT_EQ(SendHeartbeat(worker_, 8).leases.size(), 3u) << "splits of 20 events";
  EXPECT_THAT(Journaled(), ElementsAre(ScaleSet{{2, 2}, 2, false, 0, true}));
  config_.term = 2;
  config_.take_over = config_.keep_scale = true;
  Restart();
  Stream(400, 1000);
  for (int i = 0; i < 2; ++i) {
    SendServerHeartbeat(a_);
    SendServerHeartbeat(b_);
  }
  EXPECT_EQ(coordinator_->status().phase, Phase::kPaused);
  EXPECT_THAT(SendHeartbeat(worker_, 8).leases, SizeIs(Le(3u))) << "what was cut before";
  Admin(Kind::kContinue);
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);
  EXPECT_FALSE(Journaled().back().pause_reached);

  config_.pause_at = 50;
  config_.take_over = config_.keep_scale = false;
  config_.term = 0;
  Restart();
  Run(400);
  ASSERT_EQ(SendHeartbeat(worker_, 8).leases.size(), 6u) << "three of before, and three of this run";
  Restart();
  Run(400);
  EXPECT_FALSE(Journaled().back().pause_reached) << "another run";
}

TEST_F(CoordinatorScaleTest, RoundsThatHaveBegunAreFinished) {
  config_.strategy.kind = StrategyKind::kSync;
  config_.strategy.lanes = 4;
  Start({});
  Run(800);
  const NodeId other = JoinWorker();
  const auto mine = SendHeartbeat(worker_, 1).leases;
  ASSERT_EQ(mine.size(), 4u) << "its lanes of two rounds of two steps";
  EXPECT_EQ(Ask({.kind = Kind::kPause}), Status());
  EXPECT_EQ(coordinator_->status().phase, Phase::kPaused);
  // Otherwise the first worker would wait for them.
  const auto theirs = SendHeartbeat(other, 1).leases;
  ASSERT_EQ(theirs.size(), 4u);
  Admin(Kind::kCheckpoint);
  Checkpoint();
  const CheckpointOrder order = *SendServerHeartbeat(a_).checkpoint;
  EXPECT_EQ(order.version, 4u);
  std::vector<uint64_t> first, second;
  for (const auto* leases : {&mine, &theirs}) {
    for (const Lease& lease : *leases) {
      Train(lease);
      (leases == &mine ? first : second).push_back(lease.id);
    }
  }
  version_ = 4;
  for (const NodeId server : {a_, b_}) SendServerHeartbeat(server, Saved(server, order));
  Commit(All<CommitManifest>(actions_).at(0).manifest);
  EXPECT_EQ(coordinator_->status().checkpoint, 1u);
  EXPECT_THAT(SendHeartbeat(worker_, 1, {}, first).leases, IsEmpty());
  EXPECT_THAT(SendHeartbeat(other, 1, {}, second).leases, IsEmpty());
  for (const NodeId server : {a_, b_}) SendServerHeartbeat(server);
  EXPECT_THAT(SendHeartbeat(worker_, 1).leases, IsEmpty());
  Admin(Kind::kContinue);
  EXPECT_EQ(SendHeartbeat(worker_, 1).leases.size(), 4u);
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);
}

// ---- coordinators that take over

TEST_F(CoordinatorScaleTest, NoCommandIsAnsweredBeforeItIsOnDisk) {
  Run(400);
  JoinWorker();
  const auto journals = [](const auto& a) { return std::holds_alternative<AppendJournal>(a); };
  const auto confirms = [](const auto& a) { return std::holds_alternative<ConfirmTerm>(a); };
  for (const AdminRequest& request :
       {AdminRequest{.kind = Kind::kScale, .workers = WorkerRange{3, 5}},
        AdminRequest{.kind = Kind::kScale, .servers = 3},
        AdminRequest{.kind = Kind::kDrain, .role = Role::kServer, .index = 1},
        AdminRequest{.kind = Kind::kDrain, .role = Role::kWorker, .index = 1},
        AdminRequest{.kind = Kind::kPause}, AdminRequest{.kind = Kind::kContinue}}) {
    EXPECT_EQ(Ask(request), Status());
    EXPECT_TRUE(Before(journals)) << static_cast<int>(request.kind);
    EXPECT_EQ(Ask(request), Status()) << "once more";
    EXPECT_THAT(All<AppendJournal>(actions_), IsEmpty());
    EXPECT_TRUE(Before(confirms)) << "a coordinator that was replaced would lie";
  }
}

TEST_F(CoordinatorScaleTest, APausedJobThatIsTakenOverBeginsNoRound) {
  const auto leases = BeginSync();
  Admin(Kind::kCheckpoint);
  Checkpoint();  // rounds from step 4 on have to wait for it
  std::vector<Lease> held;
  std::vector<uint64_t> held_ids, ended;
  for (const Lease& lease : leases) {
    if (lease.first_step == 0) {
      Train(lease);
      ended.push_back(lease.id);
    } else {
      held.push_back(lease);
      held_ids.push_back(lease.id);
    }
  }
  version_ = 2;
  SendServerHeartbeat(a_);
  SendServerHeartbeat(b_);
  const uint64_t made = coordinator_->status().rounds;
  EXPECT_THAT(SendHeartbeat(worker_, 1, held_ids, ended).leases, IsEmpty());
  ASSERT_GT(coordinator_->status().rounds, made) << "one is made, and not leased";
  EXPECT_EQ(Ask({.kind = Kind::kPause}), Status());
  EXPECT_EQ(Journaled().back().begun, 4u);

  TakeOver();
  ServersReport();
  EXPECT_THAT(Return(held), IsEmpty());
  ServersReport();
  EXPECT_EQ(coordinator_->status().phase, Phase::kPaused);
  EXPECT_THAT(SendHeartbeat(worker_, 1, held_ids).leases, IsEmpty());
  // Steps that have begun are finished, and can be saved.
  Admin(Kind::kCheckpoint);
  Checkpoint();
  EXPECT_EQ(SendServerHeartbeat(a_).checkpoint->version, 4u);
  for (const Lease& lease : held) Train(lease);
  version_ = 4;
  EXPECT_THAT(SendHeartbeat(worker_, 1, {}, held_ids).leases, IsEmpty());
  ServersReport();
  EXPECT_THAT(SendHeartbeat(worker_, 1).leases, IsEmpty());
  Admin(Kind::kContinue);
  const auto more = SendHeartbeat(worker_, 1).leases;
  ASSERT_FALSE(more.empty());
  EXPECT_EQ(more[0].first_step, 4u);
}

TEST_F(CoordinatorScaleTest, LanesThatNobodyHoldsAfterATakeoverAreFinishedInAPause) {
  const auto leases = BeginSync();
  EXPECT_EQ(Ask({.kind = Kind::kPause}), Status());
  TakeOver();
  ServersReport();
  EXPECT_THAT(Return({}), IsEmpty());
  ServersReport();
  EXPECT_EQ(SendHeartbeat(worker_, 1).leases.size(), leases.size()) << "some of it may have been trained";
}

// It has nothing to do with the steps that had begun before.
TEST_F(CoordinatorScaleTest, NothingIsTrainedAgainInAPause) {
  BeginSync();
  EXPECT_EQ(Ask({.kind = Kind::kPause}), Status());
  EXPECT_EQ(Journaled().back().begun, 4u);
  Take(coordinator_->OnNodeLost(now_, b_));
  EXPECT_EQ(Journaled().back(), (ScaleSet{{2, 2}, 2, true, 0}));
  b_ = JoinServer("c");
  ServersReport();
  EXPECT_EQ(coordinator_->status().phase, Phase::kPaused);
  EXPECT_THAT(SendHeartbeat(worker_, 1).leases, IsEmpty());
  TakeOver();
  ServersReport();
  EXPECT_THAT(Return({}), IsEmpty());
  ServersReport();
  EXPECT_THAT(SendHeartbeat(worker_, 1).leases, IsEmpty());
  Admin(Kind::kContinue);
  const auto again = SendHeartbeat(worker_, 1).leases;
  ASSERT_FALSE(again.empty());
  EXPECT_EQ(again[0].first_step, 0u);
}

TEST_F(CoordinatorScaleTest, AServerThatIsDrainedHandsItsSlicesOverWhoeverCoordinates) {
  config_.term = 1;
  Start({});
  Run(800);
  EXPECT_EQ(Drain(Role::kServer, 1), Status());
  EXPECT_EQ(Wanted().second, 1u) << "or another one would be started";
  const auto moves = [this] {
    std::vector<MoveOrder> orders;
    for (int i = 0; i < 50 && orders.empty(); ++i) {
      now_ += milliseconds(100);
      EXPECT_THAT(SendServerHeartbeat(a_).moves, IsEmpty());
      const auto reply = SendServerHeartbeat(b_);
      EXPECT_TRUE(reply.drain);
      orders = reply.moves;
    }
    return orders;
  };
  ASSERT_EQ(moves().size(), 1u);
  TakeOver();
  ServersReport();
  EXPECT_THAT(Draining(), ElementsAre(b_));
  EXPECT_EQ(Wanted().second, 1u);
  const auto orders = moves();
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].to, a_);
}

TEST_F(CoordinatorScaleTest, AStopEndsThePause) {
  Run(400);
  EXPECT_EQ(Ask({.kind = Kind::kPause}), Status());
  Admin(Kind::kStop);
  EXPECT_EQ(coordinator_->status().phase, Phase::kStopping);
  EXPECT_FALSE(Journaled().back().paused) << "the job trains when it is resumed";
  for (const Status& refused :
       {Scale(WorkerRange{3, 3}), Drain(Role::kWorker, 0), Ask({.kind = Kind::kPause})}) {
    EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
    EXPECT_EQ(refused.message(), "the job is ending");
  }
}

TEST_F(CoordinatorScaleTest, CommandsToAJobThatHasEndedAreRefused) {
  Run(400);
  Admin(Kind::kDiscard);
  now_ += seconds(60);
  Take(coordinator_->OnTimer(now_));
  ASSERT_EQ(coordinator_->status().phase, Phase::kEnded);
  for (const Status& refused : {Scale(WorkerRange{3, 3}), Drain(Role::kWorker, 0),
                                Ask({.kind = Kind::kPause}), Ask({.kind = Kind::kStop})}) {
    EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
    EXPECT_EQ(refused.message(), "the job has ended");
  }
}

}  // namespace
}  // namespace leat::protocol
