// Grants of a pool to a job.
#include <gmock/gmock.h>

#include "protocol/coordinator/testing.h"

namespace leat::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = AdminRequest::Kind;

class CoordinatorGrantTest : public CoordinatorTest {
 protected:
  CoordinatorGrantTest() {
    config_.workers = 3;
    config_.max_servers = 4;
    config_.pool = true;
    Start({});
  }
  Status Ask(const AdminRequest& request) { return std::get<AdminReply>(Call(request)).status; }
  Status Grant(uint32_t workers, uint32_t servers) {
    return Ask({.kind = Kind::kGrant, .workers = WorkerRange{workers, workers}, .servers = servers});
  }
  std::vector<NodeId> Draining() const {
    std::vector<NodeId> found;
    for (const Member& member : coordinator_->status().view.members) {
      if (member.state == Member::State::kDraining) found.push_back(member.node);
    }
    return found;
  }
};

TEST_F(CoordinatorGrantTest, TheLastWorkersLeaveAndTheWantStays) {
  Run(400);
  const NodeId second = JoinWorker(), third = JoinWorker();
  EXPECT_EQ(Grant(3, 2), Status());
  EXPECT_THAT(Draining(), IsEmpty());
  EXPECT_EQ(Grant(2, 2), Status());
  EXPECT_THAT(Draining(), ElementsAre(third));
  EXPECT_EQ(Grant(2, 2), Status()) << "repeated";
  EXPECT_THAT(Draining(), ElementsAre(third));
  EXPECT_TRUE(SendHeartbeat(third).drain);
  EXPECT_EQ(Grant(1, 2), Status());
  EXPECT_TRUE(SendHeartbeat(second).drain);
  EXPECT_FALSE(SendHeartbeat(worker_).drain);
  EXPECT_EQ(coordinator_->status().wanted.now(), 3u);
  EXPECT_EQ(coordinator_->status().grant, (CoordinatorStatus::Grant{1, 2}));
}

TEST_F(CoordinatorGrantTest, AWorkerThatComesBeyondTheGrantLeavesWithTheNextOne) {
  Run(400);
  EXPECT_EQ(Grant(1, 2), Status());
  const NodeId more = JoinWorker();
  EXPECT_EQ(Grant(1, 2), Status());
  EXPECT_THAT(Draining(), ElementsAre(more));
}

TEST_F(CoordinatorGrantTest, AWorkerThatReplacesADeadOneStays) {
  Run(400);
  EXPECT_EQ(Grant(1, 2), Status());
  now_ += config_.heartbeat_timeout / 2;
  JoinWorker();
  EXPECT_EQ(Grant(1, 2), Status());
  EXPECT_THAT(Draining(), IsEmpty());
}

TEST_F(CoordinatorGrantTest, OnlyAPoolGrants) {
  EXPECT_THAT(Grant(0, 1).message(), HasSubstr("at least 1"));
  EXPECT_EQ(Ask({.kind = Kind::kGrant}).code(), Code::kInvalidArgument);
  config_.pool = false;
  Start({});
  const Status refused = Grant(1, 1);
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("a job has one executor"));
  EXPECT_FALSE(coordinator_->status().grant.has_value());
}

}  // namespace
}  // namespace leat::protocol
