// The coordinator of workers that reduce by MPI: one group for the whole job.
#include <gmock/gmock.h>

#include "protocol/coordinator/testing.h"

namespace leat::protocol {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CoordinatorMpiTest : public CoordinatorTest {
 protected:
  CoordinatorMpiTest() {
    config_.workers = 2;
    config_.strategy = Defaults(StrategyKind::kAllReduce, 2);
    config_.strategy.mpi = true;
    Start({});
    Stream(0, 1000);
    Take(coordinator_->OnTimer(now_));  // it runs from now on
  }

  JoinReply JoinAt(std::optional<MpiRank> place, const std::string& address = "") {
    JoinRequest request;
    request.role = Role::kWorker;
    request.address = address.empty() && place ? "host:" + std::to_string(place->rank) : address;
    request.mpi = place;
    return std::get<JoinReply>(Call(request));
  }
  // Both ranks, the last one first, in a group.
  void Form() {
    rank1_ = JoinAt(MpiRank{1, 2}).node;
    rank0_ = JoinAt(MpiRank{0, 2}).node;
    Hear(rank0_);
    Hear(rank1_);
    ASSERT_TRUE(group_);
  }
  WorkerHeartbeatReply Hear(NodeId node, const std::string& failure = "", bool leaving = false) {
    WorkerHeartbeat heartbeat;
    heartbeat.node = node;
    heartbeat.leaving = leaving;
    heartbeat.member_report.emplace();
    heartbeat.member_report->group = group_;
    heartbeat.member_report->failure = failure;
    const auto reply = std::get<WorkerHeartbeatReply>(Call(heartbeat));
    if (reply.group) group_ = reply.group->id;
    Record();
    return reply;
  }
  // Time passes, with heartbeats of `heard`.
  void Pass(Duration time, const std::vector<NodeId>& heard) {
    for (const Time until = now_ + time; now_ < until && !ended_;) {
      now_ += milliseconds(100);
      Take(coordinator_->OnTimer(now_));
      Record();
      for (const NodeId node : heard) {
        if (!ended_) Hear(node);
      }
    }
  }
  void Record() {
    for (const JobEnded& end : All<JobEnded>(actions_)) ended_ = end.status;
  }
  // The reason for the end of the job so far.
  std::string Why() const {
    EXPECT_TRUE(ended_);
    if (!ended_) return "";
    EXPECT_EQ(ended_->code(), Code::kUnavailable) << "all of them can be started again";
    return ended_->message();
  }

  NodeId rank0_, rank1_;
  uint64_t group_ = 0;
  std::optional<Status> ended_;
};

TEST_F(CoordinatorMpiTest, WorkersHaveTheirMpiRanks) {
  const Status without = JoinAt(std::nullopt, "a").status;
  EXPECT_EQ(without.code(), Code::kFailedPrecondition);
  EXPECT_THAT(without.message(), AllOf(HasSubstr("not started by"), HasSubstr("mpirun -np 2 leat worker")));
  const Status another = JoinAt(MpiRank{2, 3}).status;
  EXPECT_EQ(another.code(), Code::kFailedPrecondition);
  EXPECT_THAT(another.message(), AllOf(HasSubstr("rank 2 of 3"), HasSubstr("the job has 2 workers")));
  EXPECT_FALSE(JoinAt(MpiRank{2, 2}).status.ok());
  EXPECT_FALSE(JoinAt(MpiRank{0, 0}).status.ok());

  EXPECT_EQ(JoinAt(MpiRank{1, 2}).index, 1u);
  const Status twice = JoinAt(MpiRank{1, 2}).status;
  EXPECT_EQ(twice.code(), Code::kFailedPrecondition);
  EXPECT_THAT(twice.message(), HasSubstr("worker 1 has already joined, at host:1"));
  EXPECT_EQ(JoinAt(MpiRank{0, 2}).index, 0u);
  EXPECT_EQ(Join(Role::kBots).index, 0u) << "only workers";
}

TEST_F(CoordinatorMpiTest, TheGroupWaitsForAllHoweverLong) {
  rank1_ = JoinAt(MpiRank{1, 2}).node;
  Pass(seconds(60), {rank1_});
  EXPECT_EQ(group_, 0u);
  rank0_ = JoinAt(MpiRank{0, 2}).node;
  Hear(rank0_);
  const auto group = Hear(rank1_).group;
  ASSERT_TRUE(group);
  ASSERT_EQ(group->members.size(), 2u);
  EXPECT_EQ(group->members[0].node, rank0_) << "ranks are MPI's";
  EXPECT_EQ(group->members[1].node, rank1_);
  Pass(seconds(60), {rank0_, rank1_});
  EXPECT_EQ(group_, group->id);
  EXPECT_FALSE(ended_);
}

TEST_F(CoordinatorMpiTest, AWorkerLostBeforeTheFirstGroupCanBeReplaced) {
  rank1_ = JoinAt(MpiRank{1, 2}).node;
  Pass(seconds(10), {});
  EXPECT_FALSE(ended_);
  Form();
  EXPECT_FALSE(ended_);
}

TEST_F(CoordinatorMpiTest, ALossEndsTheJobAndIsNamed) {
  Form();
  Pass(seconds(20), {rank0_});
  EXPECT_THAT(Why(), AllOf(HasSubstr("worker 1 (rank 1 of 2, host:1) was lost"),
                           HasSubstr("there is no checkpoint to resume from")));
}

TEST_F(CoordinatorMpiTest, AKnownProcessEndIsNotWaitedFor) {
  Form();
  Take(coordinator_->OnNodeLost(now_, rank0_));
  EXPECT_TRUE(Hear(rank1_).stop);
  Pass(milliseconds(100), {});
  EXPECT_THAT(Why(), HasSubstr("worker 0 (rank 0 of 2, host:0) was lost"));
}

TEST_F(CoordinatorMpiTest, LeavingBecauseOfALossIsNotTheNamedCause) {
  Form();
  Pass(milliseconds(100), {rank0_});
  EXPECT_TRUE(Hear(rank0_, "", true).stop);
  Pass(seconds(20), {});
  EXPECT_THAT(Why(), HasSubstr("worker 1 (rank 1 of 2, host:1) was lost"));
}

TEST_F(CoordinatorMpiTest, FailingBecauseOfALossIsNotTheNamedCause) {
  Form();
  Hear(rank0_, "MPI has lost a member");
  Pass(seconds(20), {rank0_});
  EXPECT_THAT(Why(), HasSubstr("worker 1 (rank 1 of 2, host:1) was lost"));
}

TEST_F(CoordinatorMpiTest, TheFirstSilentOfSeveralIsNamed) {
  Form();
  Pass(milliseconds(100), {rank1_});  // a member with the lower node
  Pass(seconds(4), {});
  // A single sweep finds both.
  now_ += milliseconds(1050);
  Take(coordinator_->OnTimer(now_));
  Record();
  EXPECT_EQ(coordinator_->status().evictions, 2u);
  EXPECT_THAT(Why(), HasSubstr("worker 0 (rank 0 of 2, host:0) was lost"));
}

TEST_F(CoordinatorMpiTest, LeavingOrFailingAloneEndsTheJobAndIsNamed) {
  Form();
  EXPECT_TRUE(Hear(rank0_, "", true).stop);
  Pass(seconds(5), {rank1_});
  EXPECT_FALSE(ended_);
  Pass(seconds(2), {rank1_});
  EXPECT_THAT(Why(), HasSubstr("worker 0 (rank 0 of 2, host:0) has left"));
}

TEST_F(CoordinatorMpiTest, AnUnexplainedFailureIsReported) {
  Form();
  Hear(rank0_, "all-reduce 7 did not end in time: rank 1 does not answer");
  Pass(seconds(7), {rank0_, rank1_});
  EXPECT_THAT(Why(),
              HasSubstr("worker 0 (rank 0 of 2, host:0) has failed (all-reduce 7 did not end in time"));
}

TEST_F(CoordinatorMpiTest, NothingIsWaitedForWhenAllHaveLeft) {
  Form();
  Hear(rank1_, "", true);
  Hear(rank0_, "", true);
  Pass(milliseconds(100), {});
  EXPECT_THAT(Why(), HasSubstr("worker 1 (rank 1 of 2, host:1) has left"));
}

}  // namespace
}  // namespace leat::protocol
