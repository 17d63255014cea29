#include "protocol/coordinator/coordinator.h"

#include <array>

#include "base/rng.h"
#include "protocol/coordinator/testing.h"

namespace leat::protocol {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---- membership

TEST_F(CoordinatorTest, JoiningGivesAnIdOnceAndTheJob) {
  const JoinReply worker = Join(Role::kWorker);
  EXPECT_TRUE(worker.status.ok());
  EXPECT_EQ(worker.job, "the job");
  EXPECT_EQ(worker.heartbeat_interval, config_.heartbeat_interval);
  EXPECT_EQ(worker.index, 0u);
  const JoinReply other = Join(Role::kWorker);
  EXPECT_NE(other.node, worker.node);
  EXPECT_EQ(other.index, 1u);
  Take(coordinator_->OnNodeLost(now_, worker.node));
  const JoinReply third = Join(Role::kWorker);
  EXPECT_EQ(third.index, 0u) << "the lowest that is free";
  EXPECT_GT(third.node, other.node);

  EXPECT_FALSE(Join(Role::kServer).status.ok()) << "without an address";
  EXPECT_FALSE(Join(Role::kCoordinator).status.ok()) << "likewise";
  EXPECT_FALSE(Join(static_cast<Role>(77)).status.ok());
}

TEST_F(CoordinatorTest, AnotherVersionOrJobIsRejectedWithBothNamed) {
  config_.version = "2.0";
  config_.job_hash = 0xabc;
  Start({});
  const auto join = [&](const std::string& version, uint64_t job_hash) {
    JoinRequest request;
    request.version = version;
    request.job_hash = job_hash;
    return std::get<JoinReply>(Call(request)).status;
  };
  EXPECT_TRUE(join("2.0", 0).ok()) << "has no job yet";
  EXPECT_TRUE(join("2.0", 0xabc).ok());
  const Status version = join("1.9", 0), job = join("2.0", 0xdef);
  EXPECT_EQ(version.code(), Code::kFailedPrecondition);
  EXPECT_THAT(std::string(version.message()), ::testing::HasSubstr("worker is version \"1.9\""));
  EXPECT_THAT(std::string(version.message()), ::testing::HasSubstr("\"2.0\""));
  EXPECT_EQ(job.code(), Code::kFailedPrecondition);
  EXPECT_THAT(std::string(job.message()), ::testing::HasSubstr("0000000000000def"));
  EXPECT_THAT(std::string(job.message()), ::testing::HasSubstr("0000000000000abc"));
}

TEST_F(CoordinatorTest, WhereThereAreNoServersNoneJoins) {
  config_.strategy = Defaults(StrategyKind::kAllReduce, 2);
  Start({});
  const Status why = Join(Role::kServer, "a").status;
  EXPECT_EQ(why.code(), Code::kFailedPrecondition);
  EXPECT_THAT(why.message(), HasSubstr("the job has no servers"));
  EXPECT_EQ(coordinator_->status().phase, Phase::kWaitingForWorkers);
  EXPECT_TRUE(Join(Role::kWorker, "b").status.ok());
}

TEST_F(CoordinatorTest, IdsAreJournaledBeforeTheyAreUsedAndNeverGivenAgain) {
  NodeId last;
  for (int incarnation = 0; incarnation < 3; ++incarnation) {
    for (int i = 0; i < 200; ++i) {
      const NodeId node = JoinWorker();
      EXPECT_GT(node, last);
      last = node;
      uint64_t reserved = 0;
      for (const JournalRecord& record : journal_) {
        if (const auto* given = std::get_if<IdsReserved>(&record)) reserved = given->node;
      }
      ASSERT_LT(node.value, reserved);
    }
    const Generation generation = coordinator_->status().view.generation;
    Start({std::nullopt, journal_});
    JoinWorker();
    EXPECT_GT(coordinator_->status().view.generation, generation);
  }
  const auto reservations = std::ranges::count_if(
      journal_, [](const JournalRecord& record) { return std::holds_alternative<IdsReserved>(record); });
  EXPECT_LT(reservations, 30) << "in blocks";
}

TEST_F(CoordinatorTest, UnknownNodesAreEvictedAndWrongRolesToo) {
  EXPECT_TRUE(SendHeartbeat(NodeId(55)).evicted);
  EXPECT_TRUE(SendServerHeartbeat(NodeId(55)).evicted);
  BotsHeartbeat bots;
  bots.node = NodeId(55);
  EXPECT_TRUE(std::get<BotsHeartbeatReply>(Call(bots)).evicted);
  const NodeId worker = JoinWorker();
  EXPECT_TRUE(SendServerHeartbeat(worker).evicted);
  EXPECT_FALSE(SendHeartbeat(worker).evicted);
  EXPECT_TRUE(std::holds_alternative<Refusal>(Call(StatusRequest{})));
}

// A loop that computes for long sends no heartbeat; its keep-alives do.
TEST_F(CoordinatorTest, AKeepAliveKeepsARoleThatIsBusy) {
  Run();
  Take(coordinator_->OnTimer(now_));
  const auto pass = [&](Duration time, uint64_t kernels) {
    for (const Time until = now_ + time; now_ < until;) {
      now_ += seconds(1);
      Take(coordinator_->OnTimer(now_));
      for (NodeId node : {a_, b_, worker_}) {
        const auto reply = std::get<KeepAliveReply>(Call(KeepAlive{node, kernels}));
        EXPECT_FALSE(reply.evicted);
        EXPECT_FALSE(reply.stop);
      }
    }
  };
  pass(seconds(600), 0);
  EXPECT_EQ(coordinator_->status().evictions, 0u);
  EXPECT_THAT(coordinator_->status().stuck, IsEmpty());
  pass(seconds(400), 0);
  EXPECT_EQ(coordinator_->status().stuck.size(), 3u) << "alive, and doing nothing for 15 minutes";
  SendServerHeartbeat(a_);
  EXPECT_THAT(coordinator_->status().stuck, ::testing::ElementsAre(b_, worker_));
  pass(seconds(1), 1);
  EXPECT_THAT(coordinator_->status().stuck, IsEmpty()) << "kernels have finished";

  EXPECT_TRUE(std::get<KeepAliveReply>(Call(KeepAlive{NodeId(55), 0})).evicted);
}

// Its process may hang in the batch for which it was evicted. It is then no member, and never joins again.
TEST_F(CoordinatorTest, AnEvictedProcessThatIsStuckIsReportedUntilItEndsOrJoinsAgain) {
  config_.strategy = Defaults(StrategyKind::kAllReduce, 2);
  config_.leases.first = seconds(60);
  Start({});
  const auto join = [&](uint64_t process) {
    JoinRequest request;
    request.role = Role::kWorker;
    request.address = "host:" + std::to_string(process);
    request.host = "host";
    request.pid = static_cast<int64_t>(100 + process);
    request.process = process;
    return std::get<JoinReply>(Call(request)).node;
  };
  std::vector<NodeId> nodes{join(1), join(2)};
  for (const NodeId node : nodes) {
    WorkerHeartbeat heartbeat;
    heartbeat.node = node;
    heartbeat.member_report = MemberReport{};
    Call(heartbeat);
  }
  const auto pass = [&](Duration time) {
    for (const Time until = now_ + time; now_ < until;) {
      now_ += seconds(1);
      for (const NodeId node : nodes) Call(KeepAlive{node, 0});
      Take(coordinator_->OnTimer(now_));
    }
  };
  pass(seconds(100));
  EXPECT_EQ(coordinator_->status().evictions, 2u) << "overdue";
  EXPECT_TRUE(std::get<KeepAliveReply>(Call(KeepAlive{nodes[0], 0})).evicted);
  EXPECT_THAT(coordinator_->status().stuck_evicted, IsEmpty());
  pass(seconds(810));
  ASSERT_EQ(coordinator_->status().stuck_evicted.size(), 2u);
  EXPECT_EQ(coordinator_->status().stuck_evicted[0].pid, 101);
  EXPECT_EQ(coordinator_->status().stuck_evicted[0].host, "host");
  EXPECT_THAT(coordinator_->status().stuck, IsEmpty()) << "of members";

  join(1);
  ASSERT_EQ(coordinator_->status().stuck_evicted.size(), 1u);
  EXPECT_EQ(coordinator_->status().stuck_evicted[0].member.node, nodes[1]);
  nodes.clear();
  pass(config_.heartbeat_timeout + seconds(1));
  EXPECT_THAT(coordinator_->status().stuck_evicted, IsEmpty()) << "no sign of life from the process";
}

class IsolationTest : public CoordinatorTest {
 protected:
  WorkerHeartbeatReply Report(NodeId worker, std::vector<NodeId> unreachable, std::vector<uint64_t> held,
                              uint32_t wanted = 0) {
    WorkerHeartbeat heartbeat;
    heartbeat.node = worker;
    heartbeat.held = std::move(held);
    heartbeat.unreachable = std::move(unreachable);
    heartbeat.leases_wanted = wanted;
    return std::get<WorkerHeartbeatReply>(Call(heartbeat));
  }
};

TEST_F(IsolationTest, AWorkerThatCannotReachAServerLosesItsLeasesToTheOthers) {
  Run();
  const NodeId other = JoinWorker();
  const auto leases = Report(worker_, {}, {}, 2).leases;
  ASSERT_EQ(leases.size(), 2u);
  const std::vector<uint64_t> held = {leases[0].id, leases[1].id};
  EXPECT_THAT(Report(worker_, {b_}, held, 1).revoked, ::testing::ElementsAreArray(held));
  EXPECT_THAT(coordinator_->status().unreachable, ::testing::ElementsAre(std::pair(worker_, b_)));
  EXPECT_THAT(Report(worker_, {b_}, {}, 2).leases, IsEmpty());
  const auto taken = Report(other, {}, {}, 2).leases;
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].cut, leases[0].cut);
  EXPECT_EQ(Report(worker_, {}, {}, 1).leases.size(), 1u) << "it reaches all of them again";
  EXPECT_THAT(coordinator_->status().unreachable, IsEmpty());
}

TEST_F(IsolationTest, AServerThatNobodyReachesIsNotAWorkersFault) {
  Run();
  const auto leases = Report(worker_, {}, {}, 1).leases;
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_THAT(Report(worker_, {b_}, {leases[0].id}).revoked, IsEmpty()) << "the only worker";
  const NodeId other = JoinWorker();
  Report(other, {b_}, {});
  EXPECT_THAT(Report(worker_, {b_}, {leases[0].id}).revoked, IsEmpty());
  EXPECT_EQ(coordinator_->status().unreachable.size(), 2u);
}

TEST_F(IsolationTest, OnlyServersOfTheJobCount) {
  Run();
  const NodeId other = JoinWorker();
  const auto leases = Report(worker_, {}, {}, 1).leases;
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_THAT(Report(worker_, {NodeId(4711), other}, {leases[0].id}).revoked, IsEmpty());
  EXPECT_THAT(coordinator_->status().unreachable, IsEmpty());
}

TEST_F(CoordinatorTest, SilenceIsEvictedUnlessItWasOurOwn) {
  Run();
  Take(coordinator_->OnTimer(now_));
  for (int i = 0; i < 49; ++i) {
    now_ += milliseconds(100);
    Take(coordinator_->OnTimer(now_));
    SendServerHeartbeat(a_);
    SendServerHeartbeat(b_);
  }
  EXPECT_NE(coordinator_->status().view.Find(worker_), nullptr);
  now_ += milliseconds(200);
  Take(coordinator_->OnTimer(now_));
  EXPECT_EQ(coordinator_->status().view.Find(worker_), nullptr);
  EXPECT_EQ(coordinator_->status().evictions, 1u);
  const auto departures = coordinator_->status().departures;
  ASSERT_EQ(departures.size(), 1u);
  EXPECT_EQ(departures[0].number, 1u);
  EXPECT_EQ(departures[0].member.node, worker_);
  EXPECT_EQ(departures[0].how, CoordinatorStatus::Departure::How::kEvicted);
  EXPECT_TRUE(SendHeartbeat(worker_).evicted);

  now_ += seconds(60);  // the coordinator itself was stopped
  Take(coordinator_->OnTimer(now_));
  EXPECT_EQ(coordinator_->status().evictions, 1u);
  EXPECT_NE(coordinator_->status().view.Find(a_), nullptr);
}

TEST_F(CoordinatorTest, TheViewGrowsWithEveryChangeAndIsSentWhenNewer) {
  Run();
  const auto first = SendHeartbeat(worker_);
  ASSERT_TRUE(first.view);
  EXPECT_TRUE(first.view->ready());
  EXPECT_EQ(first.view->members.size(), 3u);
  WorkerHeartbeat heartbeat;
  heartbeat.node = worker_;
  heartbeat.generation = first.view->generation;
  EXPECT_FALSE(std::get<WorkerHeartbeatReply>(Call(heartbeat)).view);
  JoinWorker();
  const auto second = std::get<WorkerHeartbeatReply>(Call(heartbeat)).view;
  ASSERT_TRUE(second);
  EXPECT_GT(second->generation, first.view->generation);
}

// ---- slices

TEST_F(CoordinatorTest, PlacesSlicesWhenTheStreamAndEnoughServersAreThere) {
  const NodeId a = JoinServer("a");
  EXPECT_THAT(SendServerHeartbeat(a).orders, IsEmpty());
  const NodeId b = JoinServer("b");
  EXPECT_THAT(SendServerHeartbeat(a).orders, IsEmpty()) << "where does the stream start?";
  Stream(0, 1000);
  EXPECT_EQ(std::get<StreamStart>(journal_.rbegin()[1]).start, (std::vector<Position>{{0, 0}, {0, 1000}}));
  EXPECT_EQ(std::get<SlicesPlaced>(journal_.back()).places.size(), config_.table.slices.size());
  EXPECT_EQ(SendServerHeartbeat(a).orders.size(), 6u);
  const auto reply = SendServerHeartbeat(b);
  EXPECT_EQ(reply.orders.size(), 6u);
  EXPECT_EQ(reply.start, (std::vector<Position>{{0, 0}, {0, 1000}}));
  EXPECT_EQ(reply.orders[0].directory, "");
  EXPECT_EQ(coordinator_->status().phase, Phase::kWaitingForServers);
  SendServerHeartbeat(a);
  SendServerHeartbeat(b);
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);
}

TEST_F(CoordinatorTest, ALostServersSlicesGoToASpareOrTheNextToJoinOrTheRest) {
  Run();
  const NodeId spare = JoinServer("c");
  EXPECT_THAT(SendServerHeartbeat(spare).orders, IsEmpty());
  const auto lost = orders_[a_];
  Take(coordinator_->OnNodeLost(now_, a_));
  EXPECT_EQ(coordinator_->status().phase, Phase::kWaitingForServers);
  EXPECT_EQ(SendServerHeartbeat(spare).orders.size(), 6u) << "to the spare at once";
  EXPECT_GT(orders_[spare][0].incarnation, lost[0].incarnation);
  SendServerHeartbeat(spare);
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);

  Take(coordinator_->OnNodeLost(now_, spare));
  EXPECT_EQ(SendServerHeartbeat(b_).orders.size(), 6u);
  const NodeId next = JoinServer("d");
  EXPECT_EQ(SendServerHeartbeat(next).orders.size(), 6u) << "to the next to join";

  Take(coordinator_->OnNodeLost(now_, next));
  now_ += config_.server_wait - milliseconds(1);
  EXPECT_EQ(SendServerHeartbeat(b_).orders.size(), 6u);
  now_ += milliseconds(1);
  EXPECT_EQ(SendServerHeartbeat(b_).orders.size(), 12u) << "to the remaining server";
}

TEST_F(CoordinatorTest, AServerThatComesBackAtItsAddressReplacesItself) {
  Run();
  const NodeId again = JoinServer("a");
  EXPECT_EQ(coordinator_->status().view.Find(a_), nullptr);
  EXPECT_EQ(SendServerHeartbeat(again).orders.size(), 6u);
  EXPECT_TRUE(SendServerHeartbeat(a_).evicted);
}

TEST_F(CoordinatorTest, ASliceThatNoServerCanRestoreEndsTheJob) {
  Run();
  ServerHeartbeatReply reply;
  for (uint32_t i = 0; i < SliceMap::kMaxFailures; ++i) {
    Take(coordinator_->OnNodeLost(now_, a_));
    a_ = JoinServer("a");
    reply = SendServerHeartbeat(a_);
  }
  const SliceId slice = reply.orders[0].slice;
  const auto fail = [&](NodeId server) {
    for (uint32_t i = 0; i < SliceMap::kMaxFailures; ++i) {
      const SliceOrder order = *std::ranges::find(reply.orders, slice, &SliceOrder::slice);
      ServerHeartbeat heartbeat;
      heartbeat.node = server;
      heartbeat.failed = {{order.slice, order.incarnation}};
      heartbeat.failure = "data loss: checksum of checkpoint-1/shard-1";
      reply = std::get<ServerHeartbeatReply>(Call(heartbeat));
    }
  };
  fail(a_);
  EXPECT_FALSE(reply.stop);
  EXPECT_EQ(std::ranges::count(reply.orders, slice, &SliceOrder::slice), 0) << "it goes to the other server";
  reply = SendServerHeartbeat(b_);
  EXPECT_EQ(reply.orders.size(), 7u);
  fail(b_);
  EXPECT_TRUE(reply.stop);
  SendServerHeartbeat(a_);
  SendHeartbeat(worker_);
  const auto ended = All<JobEnded>(actions_);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].status.code(), Code::kDataLoss);
  EXPECT_NE(ended[0].status.message().find("checksum"), std::string::npos) << ended[0].status.message();
}

// ---- leases

TEST_F(CoordinatorTest, CutsAreJournaledBeforeTheyAreLeased) {
  Run();
  const auto reply = SendHeartbeat(worker_, 2);
  ASSERT_EQ(reply.leases.size(), 2u);
  ASSERT_TRUE(std::holds_alternative<AppendJournal>(actions_.at(0)));
  ASSERT_TRUE(std::holds_alternative<Reply>(actions_.back()));
  const auto& cuts = std::get<CutsMade>(journal_.back()).cuts;
  for (const Lease& lease : reply.leases) {
    EXPECT_NE(std::find(cuts.begin(), cuts.end(), lease.cut), cuts.end());
    EXPECT_TRUE(lease.missing.full());
  }
  EXPECT_NE(reply.leases[0].id, reply.leases[1].id);
  EXPECT_EQ(coordinator_->status().leases, 2u);
}

// The borders at which a sealed stream ended are in the journal, so that what is added has as many passes.
TEST_F(CoordinatorTest, AStreamThatHasGrownHasAllPassesOverWhatWasAdded) {
  config_.cuts.epochs = 2;
  Start({});
  const auto planned = [&] {
    std::vector<PassesPlanned> found;
    for (const JournalRecord& record : journal_)
      if (const auto* one = std::get_if<PassesPlanned>(&record)) found.push_back(*one);
    return found;
  };
  const auto cut_begins = [&](uint32_t partition) {
    std::vector<Position> begins;
    for (const JournalRecord& record : journal_) {
      const auto* made = std::get_if<CutsMade>(&record);
      for (size_t i = 0; made != nullptr && i < made->cuts.size(); ++i)
        if (made->cuts[i].partition == partition) begins.push_back(made->cuts[i].begin);
    }
    return begins;
  };
  Run(20, 1030, true);
  const PassesPlanned first{{{{2, 0, 20}}, {{2, 1000, 1030}}}};
  EXPECT_THAT(planned(), ::testing::ElementsAre(first));
  EXPECT_THAT(SendHeartbeat(worker_, 20).leases, ::testing::SizeIs(6));
  EXPECT_THAT(cut_begins(1), ::testing::ElementsAre(Position{0, 1000}, Position{0, 1020}, Position{1, 1000},
                                                    Position{1, 1020}));
  // Nothing has changed.
  RecoveredState restored;
  restored.journal = journal_;
  Start(restored);
  Run(20, 1030, true);
  EXPECT_THAT(planned(), ::testing::ElementsAre(first));
  // It has grown by a batch.
  restored.journal = journal_;
  DropReplaced(&restored.journal);
  Start(restored);
  orders_.clear();
  journal_.clear();
  Run(20, 1040, true);
  EXPECT_THAT(planned(),
              ::testing::ElementsAre(PassesPlanned{{{{2, 0, 20}}, {{2, 1000, 1030}, {2, 1030, 1040}}}}));
  EXPECT_THAT(SendHeartbeat(worker_, 20).leases, ::testing::SizeIs(8));
  EXPECT_THAT(cut_begins(1), ::testing::ElementsAre(Position{2, 1030}, Position{3, 1030}));
  EXPECT_EQ(coordinator_->status().lag, 2u * (20 + 40));
  // The record is for another number of partitions.
  restored.journal.push_back(PassesPlanned{{{{2, 0, 20}}}});
  EXPECT_THROW(Start(restored), std::invalid_argument);
}

TEST_F(CoordinatorTest, NothingIsLeasedWhileASliceIsNotLive) {
  Run();
  Take(coordinator_->OnNodeLost(now_, b_));
  EXPECT_THAT(SendHeartbeat(worker_, 2).leases, IsEmpty());
  const NodeId c = JoinServer("c");
  SendServerHeartbeat(c);
  EXPECT_THAT(SendHeartbeat(worker_, 2).leases, IsEmpty()) << "ordered, but not reported";
  SendServerHeartbeat(c);
  EXPECT_EQ(SendHeartbeat(worker_, 2).leases.size(), 2u);
}

TEST_F(CoordinatorTest, ADeadWorkersSplitsAreLeasedAgain) {
  Run();
  const auto leases = SendHeartbeat(worker_, 2).leases;
  const NodeId other = JoinWorker();
  Take(coordinator_->OnNodeLost(now_, worker_));
  const auto again = SendHeartbeat(other, 2).leases;
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].cut, leases[0].cut);
  EXPECT_GT(again[0].id, leases[1].id);
  EXPECT_EQ(coordinator_->status().regranted_leases, 2u);
}

TEST_F(CoordinatorTest, WorkersStayWithTheirPartitions) {
  Run(400, 3000);
  const NodeId other = JoinWorker();
  std::map<NodeId, std::vector<uint64_t>> held;
  std::map<NodeId, std::vector<uint32_t>> read;
  const auto take = [&](NodeId worker, uint32_t wanted) {
    const auto leases = SendHeartbeat(worker, wanted, held[worker]).leases;
    for (const Lease& lease : leases) {
      held[worker].push_back(lease.id);
      read[worker].push_back(lease.cut.partition);
    }
    return leases.size();
  };
  for (const uint32_t wanted : {1, 1, 2, 6}) {
    EXPECT_EQ(take(worker_, wanted), wanted);
    EXPECT_EQ(take(other, wanted), wanted);
  }
  EXPECT_EQ(take(worker_, 8), 8u);
  EXPECT_THAT(read[worker_], ::testing::Each(0u));
  EXPECT_THAT(read[other], ::testing::Each(1u));
  EXPECT_EQ(take(worker_, 8), 8u) << "nobody is idle";
  EXPECT_THAT(read[worker_], ::testing::Contains(1u));
  EXPECT_EQ(std::ranges::count(read[worker_], 0u), 20) << "splits of 20 events";
}

TEST_F(CoordinatorTest, ALeavingWorkerGivesEverythingBack) {
  Run(20);
  const auto lease = SendHeartbeat(worker_, 1).leases.at(0);
  const NodeId other = JoinWorker();
  WorkerHeartbeat heartbeat;
  heartbeat.node = worker_;
  heartbeat.held = {lease.id};
  heartbeat.leaving = true;
  EXPECT_TRUE(std::get<WorkerHeartbeatReply>(Call(heartbeat)).stop);
  EXPECT_EQ(coordinator_->status().departures.at(0).how, CoordinatorStatus::Departure::How::kLeft);
  EXPECT_EQ(SendHeartbeat(other, 1).leases.at(0).cut, lease.cut);
}

TEST_F(CoordinatorTest, TheLastDeparturesAreKnown) {
  Run(20);
  constexpr uint64_t kLost = CoordinatorStatus::kDepartures + 3;
  NodeId last;
  for (uint64_t i = 0; i < kLost; ++i) {
    last = JoinWorker();
    Take(coordinator_->OnNodeLost(now_, last));
    Take(coordinator_->OnNodeLost(now_, last));  // known already
  }
  const auto departures = coordinator_->status().departures;
  ASSERT_EQ(departures.size(), CoordinatorStatus::kDepartures);
  EXPECT_EQ(departures.front().number, 4u);
  EXPECT_EQ(departures.back().number, kLost);
  EXPECT_EQ(departures.back().member.node, last);
  EXPECT_EQ(departures.back().how, CoordinatorStatus::Departure::How::kLost);
}

TEST_F(CoordinatorTest, ADrainedWorkerIsToldToLeaveAndGetsNothingNew) {
  Run(400);
  const auto lease = SendHeartbeat(worker_, 1).leases.at(0);
  const NodeId other = JoinWorker();
  EXPECT_FALSE(SendHeartbeat(worker_, 1, {lease.id}).drain);
  ASSERT_TRUE(coordinator_->Drain(now_, worker_).ok());
  const auto reply = SendHeartbeat(worker_, 3, {lease.id});
  EXPECT_TRUE(reply.drain);
  EXPECT_THAT(reply.leases, IsEmpty());
  EXPECT_THAT(reply.revoked, IsEmpty()) << "it finishes what it has begun";
  EXPECT_EQ(reply.view->Find(worker_)->state, Member::State::kDraining);
  EXPECT_EQ(reply.view->Find(other)->state, Member::State::kActive);
  const auto others = SendHeartbeat(other, 1);
  EXPECT_FALSE(others.drain);
  EXPECT_EQ(others.leases.size(), 1u);
  EXPECT_TRUE(coordinator_->Drain(now_, worker_).ok()) << "again";
  EXPECT_EQ(coordinator_->Drain(now_, NodeId(999)).code(), Code::kNotFound);
}

TEST_F(CoordinatorTest, ProgressIsWhatTheLedgersSay) {
  Run(40, 1000, true);
  auto leases = SendHeartbeat(worker_, 2).leases;
  ASSERT_EQ(leases.size(), 2u);
  EXPECT_EQ(coordinator_->status().lag, 40u);
  SendHeartbeat(worker_, 0, {}, {leases[0].id, leases[1].id});
  EXPECT_EQ(coordinator_->status().lag, 40u) << "a worker's word moves nothing";
  Train(leases[0]);
  SendServerHeartbeat(a_);
  EXPECT_EQ(coordinator_->status().lag, 40u) << "one server is not all";
  SendServerHeartbeat(b_);
  EXPECT_EQ(coordinator_->status().lag, 20u);
  SendServerHeartbeat(a_);
  SendServerHeartbeat(b_);
  leases = SendHeartbeat(worker_, 2).leases;
  ASSERT_EQ(leases.size(), 1u) << "the only free one";
  EXPECT_EQ(leases[0].cut.begin, (Position{0, 20}));
}

// ---- invalid messages

// Random messages, of members and others: no crash, and never two answers to one call.
TEST_F(CoordinatorTest, SurvivesAnyMessages) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Rng rng(seed);
    config_.checkpoint_interval = milliseconds(500);
    config_.strategy.kind =
        std::array{StrategyKind::kAsync, StrategyKind::kSync, StrategyKind::kAllReduce}[seed % 3];
    config_.strategy.lanes = static_cast<uint32_t>(1 + rng.Below(3));
    config_.strategy.backup = static_cast<uint32_t>(rng.Below(2));
    Start({});
    orders_.clear();
    Run(500, 1500);
    std::vector<uint64_t> ids = {0, 1, 2, 3};
    const auto some_id = [&] { return rng.Chance(0.9) ? ids[rng.Below(ids.size())] : rng(); };
    const auto some_node = [&] { return NodeId(rng.Chance(0.9) ? 1 + rng.Below(6) : rng()); };
    const auto some_cut = [&] {
      Cut cut;
      cut.partition = static_cast<uint32_t>(rng.Below(3));
      cut.begin =
          cut.after = {static_cast<uint32_t>(rng.Below(2)), cut.partition * 1000 + rng.Below(20) * 20};
      cut.end = cut.begin.offset + rng.Below(50);
      cut.batch_size = static_cast<uint32_t>(rng.Below(20));
      return cut;
    };
    const auto some_lives = [&] {
      std::vector<SliceIncarnation> incarnations;
      const auto places = coordinator_->status().view.slices;
      for (uint32_t i = 0; i < 14; ++i) {
        if (rng.Chance(0.5)) continue;
        const bool known = i < places.size() && rng.Chance(0.9);
        incarnations.push_back({SliceId(i), known ? places[i].incarnation : Incarnation(some_id())});
      }
      return incarnations;
    };
    const auto some_partitions = [&] {
      std::vector<PartitionLedger> partitions(rng.Chance(0.9) ? 2 : 3);
      for (PartitionLedger& partition : partitions) {
        partition.done = {static_cast<uint32_t>(rng.Below(2)), rng.Below(2000)};
        if (rng.Chance(0.5))
          partition.open.push_back({some_cut(), RunSet(static_cast<uint32_t>(rng.Below(9)), true)});
      }
      return partitions;
    };
    const auto some_shard = [&] {
      ShardReport shard;
      shard.checkpoint = rng.Chance(0.8) ? prepared_ : rng.Below(5);
      shard.slices = some_lives();
      return shard;
    };
    const auto some_run = [&] {
      return RejectedRun{some_node(), some_cut(), static_cast<uint32_t>(rng.Below(99))};
    };
    uint64_t group = 0;
    const auto some_member_report = [&] {
      MemberReport report;
      report.group = rng.Chance(0.9) ? group : some_id();
      report.holds = rng.Chance(0.9);
      report.connected = rng.Chance(0.9);
      report.step = rng.Chance(0.95) ? rng.Below(5) : rng();
      report.partitions = some_partitions();
      report.rounds_until = report.step + rng.Below(10);
      if (rng.Chance(0.02)) report.failure = "lost";
      if (rng.Chance(0.5)) report.shard = some_shard();
      report.consecutive_rejected = static_cast<uint32_t>(rng.Below(5));
      if (rng.Chance(0.1)) report.rejected = some_run();
      return report;
    };
    std::map<uint64_t, int> answers;
    for (int round = 0; round < 1500; ++round) {
      now_ += milliseconds(rng.Below(30));
      const uint64_t what = rng.Below(12);
      ControlRequest request;
      if (what < 4) {
        WorkerHeartbeat heartbeat;
        heartbeat.node = some_node();
        heartbeat.leases_wanted = static_cast<uint32_t>(rng.Chance(0.9) ? rng.Below(4) : rng());
        for (uint64_t i = rng.Below(4); i > 0; --i) heartbeat.held.push_back(some_id());
        for (uint64_t i = rng.Below(3); i > 0; --i) heartbeat.released.push_back(some_id());
        heartbeat.leaving = rng.Chance(0.02);
        if (rng.Chance(0.9)) heartbeat.member_report = some_member_report();
        request = heartbeat;
      } else if (what < 8) {
        ServerHeartbeat heartbeat;
        heartbeat.node = some_node();
        if (rng.Chance(0.3)) heartbeat.generation = coordinator_->status().view.generation;
        heartbeat.consecutive_rejected = static_cast<uint32_t>(rng.Below(5));
        if (rng.Chance(0.1)) heartbeat.rejected = some_run();
        for (uint64_t i = rng.Below(3); i > 0; --i) {
          heartbeat.ledgers.push_back(
              {some_lives(), rng.Below(1000), some_partitions(), rng.Chance(0.1) ? rng() : rng.Below(20)});
        }
        if (rng.Chance(0.05)) heartbeat.failed = some_lives();
        if (rng.Chance(0.5)) heartbeat.shard = some_shard();
        request = heartbeat;
      } else if (what < 9) {
        request = AdminRequest{static_cast<AdminRequest::Kind>(rng.Below(5) == 4 ? 9 : rng.Below(2) * 2),
                               some_node()};
      } else if (what < 10) {
        JoinRequest join;
        join.role = static_cast<Role>(rng.Below(6));
        join.address = rng.Chance(0.5) ? "a" : "z";
        request = join;
      } else if (what < 11) {
        Take(coordinator_->OnStream(now_, {{static_cast<uint32_t>(rng.Below(4)), rng.Below(2000),
                                            rng.Below(4000), rng.Chance(0.1)}}));
        continue;
      } else {
        Result<CheckpointOrder> order = Status(Code::kResourceExhausted, "full");
        if (rng.Chance(0.8)) order = CheckpointOrder{prepared_, "d"};
        Take(coordinator_->OnCheckpointPrepared(now_, prepared_, order));
        Take(coordinator_->OnManifestCommitted(now_, prepared_, rng.Chance(0.8) ? Status() : order.status()));
        Take(coordinator_->OnTimer(now_));
        continue;
      }
      Call(request);
      for (const Reply& reply : All<Reply>(actions_)) {
        EXPECT_EQ(++answers[reply.call], 1);
        if (const auto* heartbeat = std::get_if<WorkerHeartbeatReply>(&reply.reply)) {
          for (const Lease& lease : heartbeat->leases) ids.push_back(lease.id);
          if (heartbeat->group) group = heartbeat->group->id;
        }
      }
      if (coordinator_->status().phase == Phase::kEnded) break;
    }
  }
}

// ---- a pause

TEST_F(CoordinatorTest, PausesAfterSoManyEventsUntilItIsToContinue) {
  config_.pause_at = 50;
  Start({});
  Run(200, 1000, true);
  const auto first = SendHeartbeat(worker_, 8).leases;
  ASSERT_EQ(first.size(), 3u) << "splits of 20 events";
  EXPECT_EQ(coordinator_->status().phase, Phase::kPaused);
  // Cuts made before the pause are still trained, whichever worker is lost.
  Take(coordinator_->OnNodeLost(now_, worker_));
  worker_ = JoinWorker();
  const auto again = SendHeartbeat(worker_, 8).leases;
  ASSERT_EQ(again.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(again[i].cut, first[i].cut);
    Train(again[i]);
  }
  for (const NodeId server : {a_, b_}) SendServerHeartbeat(server);
  EXPECT_THAT(SendHeartbeat(worker_, 8, {}, {again[0].id, again[1].id, again[2].id}).leases, IsEmpty());
  EXPECT_EQ(coordinator_->status().lag, 140u);
  EXPECT_EQ(coordinator_->status().phase, Phase::kPaused) << "not at the end of the stream";
  Admin(AdminRequest::Kind::kContinue);
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);
  EXPECT_EQ(SendHeartbeat(worker_, 8).leases.size(), 7u) << "all that is left";
}

TEST_F(CoordinatorTest, FeedsAreMembersThatHoldUpNobody) {
  config_.feeds = {":7"};
  Start({});
  EXPECT_EQ(Join(Role::kFeed).status.code(), Code::kInvalidArgument) << "without an address";
  Run();
  const uint64_t leases = coordinator_->status().leases;
  const auto before = coordinator_->status().view.generation;
  const NodeId feed = Join(Role::kFeed, "f").node;
  Take(coordinator_->OnTimer(now_));
  const auto view = SendHeartbeat(worker_).view;
  ASSERT_TRUE(view);
  EXPECT_GT(view->generation, before);
  ASSERT_NE(view->Find(feed), nullptr);
  EXPECT_EQ(view->Find(feed)->address, "f");
  EXPECT_EQ(std::get<JobReply>(Call(JobRequest{})).feeds, (std::vector<std::string>{":7", "f"}));
  EXPECT_EQ(std::get<JobReply>(Call(JobRequest{})).job, "the job");

  EXPECT_FALSE(std::get<FeedHeartbeatReply>(Call(FeedHeartbeat{.node = feed})).evicted);
  EXPECT_TRUE(std::get<FeedHeartbeatReply>(Call(FeedHeartbeat{.node = worker_})).evicted);
  const auto left = std::get<FeedHeartbeatReply>(Call(FeedHeartbeat{.node = feed, .leaving = true}));
  EXPECT_TRUE(left.stop);
  EXPECT_EQ(std::get<JobReply>(Call(JobRequest{})).feeds, (std::vector<std::string>{":7"}));
  EXPECT_EQ(coordinator_->status().leases, leases);
}

TEST_F(CoordinatorTest, AnotherVersionIsNotToldTheJob) {
  config_.version = "2";
  Start({});
  const auto reply = std::get<JobReply>(Call(JobRequest{.version = "1"}));
  EXPECT_EQ(reply.status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(reply.job, "");
  EXPECT_TRUE(std::get<JobReply>(Call(JobRequest{.version = "2"})).status.ok());
}

}  // namespace
}  // namespace leat::protocol
