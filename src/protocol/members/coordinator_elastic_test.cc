// Workers that stand by, and take the places of others.
#include "protocol/coordinator/testing.h"

namespace leat::protocol {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class StandbyTest : public CoordinatorTest {
 protected:
  StandbyTest() {
    config_.workers = 2;
    Start({});
  }
  NodeId JoinStandby(uint64_t process = 0) {
    JoinRequest request;
    request.role = Role::kWorker;
    request.address = "standby:" + std::to_string(process);
    request.process = process;
    request.standby = true;
    const NodeId node = std::get<JoinReply>(Call(request)).node;
    Beat(node);
    return node;
  }
  WorkerHeartbeatReply Beat(NodeId node, uint32_t wanted = 1) {
    WorkerHeartbeat heartbeat;
    heartbeat.node = node;
    heartbeat.leases_wanted = wanted;
    if (config_.strategy.kind == StrategyKind::kAllReduce) heartbeat.member_report.emplace();
    return std::get<WorkerHeartbeatReply>(Call(heartbeat));
  }
  const Member& In(NodeId node) {
    view_ = coordinator_->status().view;
    return *view_.Find(node);
  }
  void Lose(NodeId node) { Take(coordinator_->OnNodeLost(now_, node)); }

  View view_;
};

TEST_F(StandbyTest, GetsNoLeaseUntilAWorkerIsLostAndThenHasItsPlace) {
  Run(400);
  const NodeId second = JoinWorker();
  const NodeId standby = JoinStandby(), other = JoinStandby(1);
  EXPECT_EQ(In(standby).state, Member::State::kStandby);
  EXPECT_EQ(Name(In(standby)), "standby 0");
  EXPECT_EQ(Name(In(other)), "standby 1");
  EXPECT_THAT(Beat(standby).leases, IsEmpty());
  ASSERT_THAT(Beat(second).leases, SizeIs(1));
  Lose(worker_);
  EXPECT_EQ(Name(In(standby)), "worker 0") << "the index of the one that is lost";
  EXPECT_EQ(In(standby).state, Member::State::kActive);
  EXPECT_EQ(In(other).state, Member::State::kStandby);
  EXPECT_THAT(Beat(standby).leases, SizeIs(1)) << "at its next heartbeat";
  EXPECT_THAT(Beat(other).leases, IsEmpty());
  // The next process stands by again.
  const NodeId third = JoinStandby(2);
  EXPECT_EQ(Name(In(third)), "standby 0");
  EXPECT_THAT(Beat(third).leases, IsEmpty());
}

TEST_F(StandbyTest, TakesThePlaceOfAWorkerThatIsToldToLeave) {
  Run(400);
  JoinWorker();
  const NodeId standby = JoinStandby();
  ASSERT_TRUE(coordinator_->Drain(now_, worker_).ok());
  SendHeartbeat(worker_);
  EXPECT_EQ(In(standby).state, Member::State::kActive);
  WorkerHeartbeat leaving;
  leaving.node = worker_;
  leaving.leaving = true;
  Call(leaving);
  EXPECT_EQ(In(JoinStandby(1)).state, Member::State::kStandby) << "no place is free";
}

TEST_F(StandbyTest, TakesAPlaceThatIsFreeWhenItJoins) {
  Run(400);
  JoinWorker();
  Lose(worker_);
  EXPECT_EQ(In(JoinStandby()).state, Member::State::kActive);
}

TEST_F(StandbyTest, WaitsForTheWorkersWhenTheJobStarts) {
  Run(400);  // a single worker of two
  const NodeId standby = JoinStandby();
  now_ += config_.standby_wait - milliseconds(1);
  Take(coordinator_->OnTimer(now_));
  SendHeartbeat(worker_);
  EXPECT_EQ(In(standby).state, Member::State::kStandby);
  now_ += milliseconds(1);
  SendHeartbeat(worker_);
  EXPECT_EQ(In(standby).state, Member::State::kActive) << "the second worker does not come";
}

TEST_F(StandbyTest, StaysWhileAProcessThatJoinsAgainTakesItsOldPlace) {
  Run(400);
  JoinRequest request;
  request.role = Role::kWorker;
  request.process = 7;
  const NodeId former = std::get<JoinReply>(Call(request)).node;
  const NodeId standby = JoinStandby();
  EXPECT_NE(std::get<JoinReply>(Call(request)).node, former);
  EXPECT_EQ(In(standby).state, Member::State::kStandby);
}

TEST_F(StandbyTest, JoinsTheNextGroupOfMembersWithoutServers) {
  config_.strategy = Defaults(StrategyKind::kAllReduce, 2);
  Start({});
  Stream(400, 1000);
  std::vector<NodeId> members;
  for (const char* address : {"a", "b"}) {
    members.push_back(Join(Role::kWorker, address).node);
    Beat(members.back());
  }
  const NodeId standby = JoinStandby();
  ASSERT_TRUE(Beat(members[0]).group);
  EXPECT_THAT(Beat(members[0]).group->members, SizeIs(2));
  EXPECT_FALSE(Beat(standby).group);
  Lose(members[1]);
  const auto group = Beat(standby).group;
  ASSERT_TRUE(group);
  ASSERT_THAT(group->members, SizeIs(2));
  EXPECT_EQ(group->members[0].node, members[0]);
  EXPECT_EQ(group->members[1].node, standby);
}

TEST_F(StandbyTest, IsRefusedUnderMpiAndForOtherRoles) {
  JoinRequest request;
  request.role = Role::kServer;
  request.address = "a";
  request.standby = true;
  EXPECT_EQ(std::get<JoinReply>(Call(request)).status.code(), Code::kFailedPrecondition);
  config_.strategy = Defaults(StrategyKind::kAllReduce, 2);
  config_.strategy.mpi = true;
  Start({});
  request.role = Role::kWorker;
  request.mpi = MpiRank{0, 2};
  const Status refused = std::get<JoinReply>(Call(request)).status;
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_THAT(refused.message(), ::testing::HasSubstr("MPI"));
}

}  // namespace
}  // namespace leat::protocol
