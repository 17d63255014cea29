// A coordinator that takes over from a former one while the members go on.
#include "protocol/coordinator/testing.h"
#include "protocol/guards.h"

namespace leat::protocol {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class TakeoverTest : public CoordinatorTest {
 protected:
  TakeoverTest() {
    config_.term = 1;
    Start({});
  }
  struct TwoLanes {
    NodeId other;                     // the worker of one lane
    std::vector<Lease> mine, others;  // leases of worker_, and of `other`
  };
  void TakeOverTwoLanes(TwoLanes* lanes) {
    config_.strategy = {.kind = StrategyKind::kSync, .lanes = 2};
    Start({});
    Begin();
    lanes->other = JoinWorker();
    lanes->mine = SendHeartbeat(worker_, 1).leases;
    lanes->others = SendHeartbeat(lanes->other, 1).leases;
    ASSERT_FALSE(lanes->mine.empty());
    ASSERT_FALSE(lanes->others.empty());
    TakeOver();
    ServersReturn();
  }
  // The former coordinator is gone; its journal is all that there is.
  void TakeOver(std::optional<Manifest> manifest = {}) {
    ++config_.term;
    config_.take_over = true;
    Start({std::move(manifest), journal_});
    Take(coordinator_->OnTimer(now_));
    Take(coordinator_->OnStream(now_, ranges_));
  }
  void Begin(uint64_t end0 = 100, uint64_t end1 = 1100) {
    ranges_ = {{0, 0, end0, false}, {1, 1000, end1, false}};
    Run(end0, end1);
  }
  // A heartbeat of the term before this one.
  WorkerHeartbeatReply SendFormerHeartbeat(NodeId worker, std::vector<uint64_t> held) {
    WorkerHeartbeat heartbeat;
    heartbeat.node = worker;
    heartbeat.term = config_.term - 1;
    heartbeat.held = std::move(held);
    heartbeat.leases_wanted = 5;
    return std::get<WorkerHeartbeatReply>(Call(heartbeat));
  }
  WorkerHeartbeatReply Return(NodeId worker, const std::vector<Lease>& leases, uint32_t wanted = 0,
                              std::vector<uint64_t> released = {}) {
    WorkerHeartbeat heartbeat;
    heartbeat.node = worker;
    heartbeat.term = config_.term;
    heartbeat.leases_wanted = wanted;
    heartbeat.released = std::move(released);
    for (const Lease& lease : leases) {
      heartbeat.held.push_back(lease.id);
      heartbeat.claims.push_back(
          {lease.id, lease.cut.partition, lease.cut.begin, lease.first_step, lease.lane});
    }
    return std::get<WorkerHeartbeatReply>(Call(heartbeat));
  }
  void ServersReturn() {
    for (int i = 0; i < 2; ++i) {
      SendServerHeartbeat(a_);
      SendServerHeartbeat(b_);
    }
  }

  std::vector<StreamRange> ranges_;
};

TEST_F(TakeoverTest, AWorkerKeepsItsLeasesAndNobodyElseGetsThem) {
  Begin();
  const NodeId other = JoinWorker();
  const auto leases = SendHeartbeat(worker_, 3).leases;
  ASSERT_THAT(leases, SizeIs(3));
  TakeOver();
  ServersReturn();
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);
  // New cuts are leased, those of the journal are not: the first worker may hold any of them.
  for (const Lease& lease : Return(other, {}, 8).leases) {
    for (const Lease& held : leases) EXPECT_NE(lease.cut, held.cut);
  }
  SendHeartbeat(other);  // they never reached it
  const auto notice = SendFormerHeartbeat(worker_, {leases[0].id, leases[1].id});
  EXPECT_EQ(notice, (WorkerHeartbeatReply{.term = 2})) << "the new term, and nothing else";
  // It has ended the third one meanwhile.
  Train(leases[2]);
  const auto back = Return(worker_, {leases[0], leases[1]}, 0, {leases[2].id});
  EXPECT_THAT(back.revoked, IsEmpty());
  EXPECT_EQ(coordinator_->status().leases, 2u);
  ServersReturn();
  ServersReturn();
  for (int i = 0; i < 3; ++i) {
    for (const Lease& lease : SendHeartbeat(other, 8).leases) {
      for (const Lease& held : leases) EXPECT_NE(lease.cut, held.cut);
    }
  }
  EXPECT_EQ(coordinator_->status().regranted_leases, 0u);
}

TEST_F(TakeoverTest, WhatNoWorkerHoldsIsLeasedOnceTheServersHaveReportedSince) {
  Begin();
  const auto leases = SendHeartbeat(worker_, 2).leases;
  TakeOver();
  ServersReturn();
  Train(leases[0]);  // and released, to the former coordinator
  Return(worker_, {});
  const auto cuts_of = [&](const std::vector<Lease>& granted) {
    std::vector<Cut> cuts;
    for (const Lease& lease : granted) cuts.push_back(lease.cut);
    return cuts;
  };
  EXPECT_THAT(cuts_of(SendHeartbeat(worker_, 8).leases), ::testing::Not(::testing::Contains(leases[1].cut)));
  ServersReturn();
  ServersReturn();
  const auto cuts = cuts_of(SendHeartbeat(worker_, 20).leases);
  EXPECT_THAT(cuts, ::testing::Contains(leases[1].cut));
  EXPECT_THAT(cuts, ::testing::Not(::testing::Contains(leases[0].cut)));
}

TEST_F(TakeoverTest, AWorkerThatDoesNotComeBackLosesItsLeases) {
  Begin();
  const NodeId other = JoinWorker();
  const auto leases = SendHeartbeat(worker_, 2).leases;
  TakeOver();
  ServersReturn();
  Return(other, {});
  const Time until = now_ + config_.heartbeat_timeout + milliseconds(200);
  while (now_ < until) {
    now_ += milliseconds(100);
    ServersReturn();
    SendHeartbeat(other);
    Take(coordinator_->OnTimer(now_));
  }
  EXPECT_EQ(coordinator_->status().evictions, 1u);
  ServersReturn();
  ServersReturn();
  std::vector<Cut> cuts;
  for (const Lease& lease : SendHeartbeat(other, 20).leases) cuts.push_back(lease.cut);
  for (const Lease& lease : leases) EXPECT_THAT(cuts, ::testing::Contains(lease.cut));
  EXPECT_TRUE(SendHeartbeat(worker_).evicted);
}

// The former coordinator has died when the loss of a server was journaled, and nothing else.
TEST_F(TakeoverTest, AllSlicesOfAStepGoBackWithThoseOfALostServer) {
  for (const bool stepped : {false, true}) {
    SCOPED_TRACE(stepped);
    if (stepped) config_.strategy = {.kind = StrategyKind::kSync, .lanes = 2};
    config_.take_over = false;
    journal_.clear();
    orders_.clear();
    Start({});
    Begin();
    const auto before = orders_[a_];
    Take(coordinator_->OnNodeLost(now_, b_));
    while (!std::holds_alternative<MembersLeft>(journal_.back())) journal_.pop_back();
    TakeOver();
    SendServerHeartbeat(a_);
    ASSERT_EQ(orders_[a_].size(), before.size());
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(orders_[a_][i].slice, before[i].slice);
      EXPECT_EQ(orders_[a_][i].incarnation > before[i].incarnation, stepped);
    }
  }
}

TEST_F(TakeoverTest, SlicesComeBackAsTheyAreByTheFirstReportOfTheTerm) {
  Begin();
  const auto lease = SendHeartbeat(worker_, 1).leases.at(0);
  Train(lease);
  ServersReturn();
  const View before = coordinator_->status().view;
  const auto watermark = coordinator_->status().watermark;
  TakeOver();
  EXPECT_EQ(coordinator_->status().phase, Phase::kWaitingForServers);
  EXPECT_EQ(coordinator_->status().waiting_for, "members of the former coordinator: ps 0, ps 1, worker 0");
  // A server's heartbeat in the former term has only what the former coordinator did not know.
  ServerHeartbeat former;
  former.node = a_;
  former.term = 1;
  former.ledgers = {LedgerReport{{{orders_[a_][0].slice, orders_[a_][0].incarnation}}, 0, {}, 0}};
  const auto notice = std::get<ServerHeartbeatReply>(Call(former));
  EXPECT_EQ(notice.term, 2u);
  EXPECT_THAT(notice.orders, IsEmpty());
  // A worker has no use for a view in which slices are missing.
  EXPECT_FALSE(Return(worker_, {}).view);
  SendServerHeartbeat(a_);
  EXPECT_FALSE(SendHeartbeat(worker_).view);
  SendServerHeartbeat(b_);
  const View after = *SendHeartbeat(worker_).view;
  EXPECT_TRUE(after.ready());
  EXPECT_GT(after.generation, before.generation);
  EXPECT_EQ(after.members, before.members);
  EXPECT_EQ(after.slices, before.slices);
  EXPECT_EQ(coordinator_->status().watermark, watermark);
}

TEST_F(TakeoverTest, ASliceThatIsOlderThanTheNewestCheckpointIsRestored) {
  Begin();
  Train(SendHeartbeat(worker_, 1).leases.at(0));
  ServersReturn();
  Admin(AdminRequest::Kind::kCheckpoint);
  const Manifest manifest = SaveAll();
  // It is complete on the disk, but the former coordinator has not seen that. Server b has an older state.
  const Ledger newer = ledger_;
  TakeOver(manifest);
  SendServerHeartbeat(a_);
  ledger_ = Ledger(std::vector<Position>{{0, 0}, {0, 1000}});
  const auto reply = SendServerHeartbeat(b_);
  ASSERT_FALSE(reply.orders.empty());
  for (const SliceOrder& order : reply.orders) {
    EXPECT_EQ(order.directory, manifest.directory);
    EXPECT_GT(order.incarnation, manifest.shards[0].slices[0].incarnation);
  }
  EXPECT_FALSE(coordinator_->status().view.ready());
  ledger_ = newer;
  SendServerHeartbeat(b_);
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);
}

TEST_F(TakeoverTest, IdsOfCheckpointsAreNotUsedAgain) {
  Begin();
  Admin(AdminRequest::Kind::kCheckpoint);
  const uint64_t former = prepared_;
  TakeOver();
  ServersReturn();
  Admin(AdminRequest::Kind::kCheckpoint);
  EXPECT_GT(prepared_, former);
}

TEST_F(TakeoverTest, WhoHearsOfAHigherTermEnds) {
  Begin();
  WorkerHeartbeat heartbeat;
  heartbeat.node = worker_;
  heartbeat.term = 2;
  heartbeat.leases_wanted = 3;
  Call(heartbeat);
  EXPECT_THAT(All<Reply>(actions_), IsEmpty());
  EXPECT_THAT(All<AppendJournal>(actions_), IsEmpty());
  const auto ended = All<JobEnded>(actions_);
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_EQ(ended[0].status.code(), Code::kStale);
  EXPECT_FALSE(ended[0].finished);
  Call(JoinRequest{});
  EXPECT_THAT(All<AppendJournal>(actions_), IsEmpty());
}

// It has a node that another member has here, and a term that is higher or lower.
TEST_F(TakeoverTest, AMemberOfAnotherRunIsEvictedAndEndsNobody) {
  config_.term = MakeTerm(5, 1);
  Start({});
  Begin();
  for (const uint32_t run : {0u, 4u, 6u}) {
    WorkerHeartbeat heartbeat;
    heartbeat.node = worker_;
    heartbeat.term = MakeTerm(run, 9);
    heartbeat.leases_wanted = 3;
    Call(heartbeat);
    const auto replies = All<Reply>(actions_);
    ASSERT_THAT(replies, SizeIs(1));
    const auto& reply = std::get<WorkerHeartbeatReply>(replies[0].reply);
    EXPECT_TRUE(reply.evicted);
    EXPECT_EQ(reply.term, config_.term);
    EXPECT_THAT(reply.leases, IsEmpty());
    EXPECT_THAT(All<JobEnded>(actions_), IsEmpty());
    EXPECT_TRUE(guards::CurrentTerm(reply.term, heartbeat.term)) << "it is believed";
  }
  EXPECT_EQ(coordinator_->status().view.members.size(), 3u);
}

TEST_F(TakeoverTest, NothingIsLeasedWithoutALookAtTheJournal) {
  Begin();
  for (int i = 0; i < 5; ++i) {
    const auto leases = SendHeartbeat(worker_, 1).leases;
    ASSERT_FALSE(leases.empty());
    EXPECT_EQ(All<AppendJournal>(actions_).empty(), !All<ConfirmTerm>(actions_).empty());
  }
  const Status why(Code::kStale, "replaced");
  Take(coordinator_->OnReplaced(why));
  EXPECT_EQ(All<JobEnded>(actions_).at(0).status, why);
}

TEST_F(TakeoverTest, MembersOfAnotherJobAreForgotten) {
  Begin();
  config_.term = 2;
  Start({{}, journal_});
  Take(coordinator_->OnTimer(now_));
  EXPECT_THAT(coordinator_->status().view.members, IsEmpty());
  EXPECT_THAT(coordinator_->taken_over(), IsEmpty());
  std::vector<JournalRecord> records = journal_;
  DropReplaced(&records);
  for (const JournalRecord& record : records) EXPECT_FALSE(std::holds_alternative<MemberJoined>(record));
  EXPECT_TRUE(SendHeartbeat(worker_).evicted);
}

TEST_F(TakeoverTest, AStandbyIsInTheViewUntilItIsSilentOrTakesOver) {
  Begin();
  const auto joined = Join(Role::kCoordinator, "standby");
  ASSERT_TRUE(joined.status.ok());
  EXPECT_EQ(joined.term, 1u);
  const auto alive = [&] { return std::get<KeepAliveReply>(Call(KeepAlive{.node = joined.node})); };
  const std::vector<std::string> addresses = {"standby"};
  EXPECT_FALSE(alive().known);
  EXPECT_EQ(StandbysIn(SendHeartbeat(worker_)), addresses);
  ServersReturn();
  EXPECT_FALSE(alive().known) << "the worker has not said that it has the view";
  WorkerHeartbeat heartbeat;
  heartbeat.node = worker_;
  heartbeat.term = config_.term;
  heartbeat.generation = coordinator_->status().view.generation;
  Call(heartbeat);
  EXPECT_TRUE(alive().known);
  EXPECT_EQ(StandbysIn(Call(BotsHeartbeat{.node = Join(Role::kBots).node})), addresses);
  // Nothing else is heard of it, which is no sign that it is stuck.
  for (Duration passed{}; passed < config_.stuck_timeout + seconds(2); passed += seconds(1)) {
    now_ += seconds(1);
    for (NodeId node : {a_, b_, worker_}) Call(KeepAlive{.node = node, .progress = ++last_call_});
    EXPECT_FALSE(alive().evicted);
    Take(coordinator_->OnTimer(now_));
  }
  EXPECT_THAT(coordinator_->status().stuck, IsEmpty());
  EXPECT_EQ(alive().standbys, addresses);

  TakeOver();
  EXPECT_TRUE(alive().evicted) << "it may be this coordinator; otherwise it joins again";
  EXPECT_THAT(coordinator_->status().view.standbys(), IsEmpty());
  EXPECT_EQ(coordinator_->taken_over().size(), 3u);
}

TEST_F(TakeoverTest, AStandbyLearnsThatTheJobIsOver) {
  Begin();
  const NodeId standby = Join(Role::kCoordinator, "standby").node;
  Admin(AdminRequest::Kind::kDiscard);
  SendHeartbeat(worker_);
  for (NodeId server : {a_, b_}) SendServerHeartbeat(server);
  EXPECT_THAT(All<JobEnded>(actions_), IsEmpty()) << "it would take over";
  EXPECT_TRUE(std::get<KeepAliveReply>(Call(KeepAlive{.node = standby})).stop);
  EXPECT_THAT(All<JobEnded>(actions_), SizeIs(1));
}

TEST_F(TakeoverTest, LanesStayWithTheirWorkers) {
  TwoLanes lanes;
  ASSERT_NO_FATAL_FAILURE(TakeOverTwoLanes(&lanes));
  const auto& [other, mine, others] = lanes;
  EXPECT_THAT(Return(other, others, 1).revoked, IsEmpty());
  now_ += milliseconds(600);  // longer than a lane waits for its worker
  for (const Lease& lease : SendHeartbeat(other, 1).leases) {
    for (const Lease& held : mine)
      EXPECT_FALSE(lease.first_step == held.first_step && lease.lane == held.lane);
  }
  EXPECT_THAT(Return(worker_, mine, 1).revoked, IsEmpty());
  EXPECT_EQ(coordinator_->status().regranted_leases, 0u);
}

// A worker that has begun a later step would have to interrupt it for an earlier one.
TEST_F(TakeoverTest, LaterRoundsWaitForLanesThatMayBeHeld) {
  TwoLanes lanes;
  ASSERT_NO_FATAL_FAILURE(TakeOverTwoLanes(&lanes));
  const auto& [other, mine, others] = lanes;
  now_ += seconds(1);
  EXPECT_THAT(Return(other, others, 5).leases, IsEmpty());
  // It did not get the last of its leases.
  const Lease missed = mine.back();
  auto held = mine;
  held.pop_back();
  EXPECT_THAT(Return(worker_, held, 5).leases, IsEmpty());
  ServersReturn();
  ServersReturn();
  std::vector<uint64_t> ids;
  for (const Lease& lease : held) ids.push_back(lease.id);
  const auto more = SendHeartbeat(worker_, 5, ids).leases;
  ASSERT_FALSE(more.empty());
  EXPECT_EQ(more[0].first_step, missed.first_step);
  EXPECT_EQ(more[0].lane, missed.lane);
}

// Others would train them twice: the worker gets its lanes back when it comes.
TEST_F(TakeoverTest, LanesAreNotGivenAwayWhileTheirWorkersAreAwaited) {
  config_.strategy = {.kind = StrategyKind::kSync, .lanes = 2};
  Start({});
  Begin();
  const NodeId other = JoinWorker();
  TakeOver();
  ServersReturn();
  auto held = Return(worker_, {}, 5).leases;
  ASSERT_FALSE(held.empty());
  now_ += config_.lane_wait + milliseconds(1);
  for (const Lease& lease : Return(worker_, held, 5).leases) held.push_back(lease);
  for (const Lease& lease : held) EXPECT_EQ(lease.lane, held[0].lane) << lease.first_step;
  const auto granted = Return(other, {}, 5).leases;
  ASSERT_FALSE(granted.empty());
  EXPECT_EQ(granted[0].first_step, held[0].first_step);
  EXPECT_NE(granted[0].lane, held[0].lane);
}

}  // namespace
}  // namespace leat::protocol
