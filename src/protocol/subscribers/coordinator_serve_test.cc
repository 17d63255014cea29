// Members that only follow the parameters: the job goes on as if they were not there.
#include "protocol/coordinator/testing.h"

namespace leat::protocol {
namespace {

class CoordinatorServeTest : public CoordinatorTest {
 protected:
  ServeHeartbeatReply Hear(NodeId node, Generation generation = {}, bool leaving = false) {
    return std::get<ServeHeartbeatReply>(Call(
        ServeHeartbeat{.node = node, .term = config_.term, .generation = generation, .leaving = leaving}));
  }
};

TEST_F(CoordinatorServeTest, JoinsWithoutAnAddressAndGetsViews) {
  const JoinReply joined = Join(Role::kServe);
  ASSERT_TRUE(joined.status.ok()) << joined.status.ToString();
  EXPECT_EQ(joined.index, 0u);
  EXPECT_EQ(joined.job, "the job");
  EXPECT_EQ(Join(Role::kServe).index, 1u);
  Run();
  const auto reply = Hear(joined.node);
  EXPECT_FALSE(reply.evicted);
  ASSERT_TRUE(reply.view);
  ASSERT_NE(reply.view->Find(joined.node), nullptr);
  EXPECT_EQ(Name(*reply.view->Find(joined.node)), "serve 0");
  EXPECT_TRUE(reply.view->ready());
  EXPECT_FALSE(Hear(joined.node, reply.view->generation).view);
  // Servers know who may pull.
  EXPECT_NE(SendServerHeartbeat(a_).view, Shared<View>());
}

TEST_F(CoordinatorServeTest, NothingWaitsForIt) {
  const NodeId serve = Join(Role::kServe).node;
  Run(100, 1000, true);  // without a heartbeat of it
  for (const Lease& lease : SendHeartbeat(worker_, 10).leases) Train(lease);
  EXPECT_NE(coordinator_->status().phase, Phase::kWaitingForWorkers);
  EXPECT_TRUE(coordinator_->status().view.ready());
  for (const Time until = now_ + seconds(6); now_ < until; now_ += milliseconds(100)) {
    SendServerHeartbeat(a_);
    SendServerHeartbeat(b_);
    SendHeartbeat(worker_);
    Take(coordinator_->OnTimer(now_));
  }
  EXPECT_EQ(coordinator_->status().view.Find(serve), nullptr);
  EXPECT_TRUE(coordinator_->status().view.ready());
  EXPECT_TRUE(Hear(serve).evicted);
}

TEST_F(CoordinatorServeTest, TheJobEndsWithoutIt) {
  Run();
  Join(Role::kServe);
  Admin(AdminRequest::Kind::kDiscard);
  for (const NodeId server : {a_, b_}) {
    EXPECT_TRUE(SendServerHeartbeat(server).stop);
  }
  EXPECT_TRUE(SendHeartbeat(worker_).stop);
  EXPECT_EQ(All<JobEnded>(actions_).size(), 1u);
}

TEST_F(CoordinatorServeTest, IsToldThatTheJobIsOver) {
  Run();
  const NodeId serve = Join(Role::kServe).node;
  Admin(AdminRequest::Kind::kDiscard);
  EXPECT_TRUE(Hear(serve).stop);
  EXPECT_EQ(Join(Role::kServe).status.code(), Code::kAborted);
}

TEST_F(CoordinatorServeTest, LeavesWhenItIsDrained) {
  Run();
  const NodeId serve = Join(Role::kServe).node;
  EXPECT_FALSE(Hear(serve).drain);
  const auto answer = std::get<AdminReply>(
      Call(AdminRequest{.kind = AdminRequest::Kind::kDrain, .role = Role::kServe, .index = 0}));
  EXPECT_TRUE(answer.status.ok()) << answer.status.ToString();
  EXPECT_TRUE(Hear(serve).drain);
  EXPECT_TRUE(Hear(serve, {}, true).stop);
  EXPECT_EQ(coordinator_->status().view.Find(serve), nullptr);
  EXPECT_EQ(coordinator_->status().wanted.servers, 2u);
}

TEST_F(CoordinatorServeTest, GoesOnWithTheNextCoordinator) {
  config_.term = MakeTerm(1, 1);
  Start({});
  Run();
  const NodeId serve = Join(Role::kServe).node;
  Hear(serve);
  config_.term = MakeTerm(1, 2);
  config_.take_over = true;
  RecoveredState restored;
  restored.journal = journal_;
  Start(std::move(restored));
  // It speaks of the former one, and is told the term alone.
  auto reply = std::get<ServeHeartbeatReply>(Call(ServeHeartbeat{.node = serve, .term = MakeTerm(1, 1)}));
  EXPECT_EQ(reply.term, config_.term);
  EXPECT_FALSE(reply.evicted);
  EXPECT_FALSE(reply.view);
  reply = Hear(serve);
  EXPECT_FALSE(reply.evicted);
  EXPECT_TRUE(reply.view);
}

}  // namespace
}  // namespace leat::protocol
