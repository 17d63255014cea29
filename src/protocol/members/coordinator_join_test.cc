// Identity of processes, and addresses that not all members can reach.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "protocol/coordinator/testing.h"

namespace leat::protocol {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CoordinatorJoinTest : public CoordinatorTest {
 protected:
  static JoinRequest Server(const std::string& address, uint64_t process, const std::string& host = "a") {
    JoinRequest request;
    request.role = Role::kServer;
    request.address = address;
    request.host = host;
    request.pid = static_cast<int64_t>(100 + process);
    request.process = process;
    return request;
  }
  static JoinRequest On(uint64_t network, JoinRequest request) {
    request.network = network;
    return request;
  }
  JoinReply Join(const JoinRequest& request) { return std::get<JoinReply>(Call(request)); }
  size_t Members() const { return coordinator_->status().view.members.size(); }
  // The node is still a member.
  bool Lives(NodeId server) {
    ServerHeartbeat heartbeat;
    heartbeat.node = server;
    return !std::get<ServerHeartbeatReply>(Call(heartbeat)).evicted;
  }
};

TEST_F(CoordinatorJoinTest, TwoProcessesWithOneAddressDoNotEvictEachOther) {
  Start({});
  const auto first = Join(Server("10.0.0.1:7", 1, "a"));
  ASSERT_TRUE(first.status.ok());
  for (int i = 0; i < 3; ++i) {
    const Status second = Join(Server("10.0.0.1:7", 2, "b")).status;
    EXPECT_EQ(second.code(), Code::kUnavailable);
    EXPECT_THAT(std::string(second.message()),
                AllOf(HasSubstr("this ps (host b, pid 102)"), HasSubstr("10.0.0.1:7"),
                      HasSubstr("ps 0 (node " + ToString(first.node) + ", host a, pid 101)"),
                      HasSubstr("--advertise")));
    EXPECT_TRUE(Lives(first.node));
  }
  EXPECT_EQ(coordinator_->status().evictions, 0u);
}

TEST_F(CoordinatorJoinTest, AnotherProcessGetsTheAddressOfALostOne) {
  Start({});
  const auto first = Join(Server("10.0.0.1:7", 1));
  EXPECT_FALSE(Join(Server("10.0.0.1:7", 2)).status.ok());
  // A longer pause would be the coordinator's own.
  Take(coordinator_->OnTimer(now_));
  for (int i = 0; i < 11; ++i) Take(coordinator_->OnTimer(now_ += config_.heartbeat_timeout / 10));
  const auto second = Join(Server("10.0.0.1:7", 2));
  EXPECT_TRUE(second.status.ok()) << second.status.ToString();
  EXPECT_FALSE(Lives(first.node));
  EXPECT_TRUE(Lives(second.node));
}

TEST_F(CoordinatorJoinTest, AProcessThatJoinsAgainReplacesItsFormerSelf) {
  Start({});
  const auto first = Join(Server("10.0.0.1:7", 1));
  for (const char* address : {"10.0.0.1:7", "10.0.0.1:8"}) {
    const auto again = Join(Server(address, 1));
    ASSERT_TRUE(again.status.ok()) << again.status.ToString();
    EXPECT_NE(again.node, first.node);
    EXPECT_EQ(again.index, 0u);
    EXPECT_FALSE(Lives(first.node));
    EXPECT_TRUE(Lives(again.node));
  }
  // The address that it has left is free.
  EXPECT_TRUE(Join(Server("10.0.0.1:7", 2)).status.ok());
}

TEST_F(CoordinatorJoinTest, WorkersWithoutListenersMayHaveOneAddress) {
  Start({});
  JoinRequest worker = Server("127.0.0.1:7", 1);
  worker.role = Role::kWorker;
  const auto first = Join(worker);
  worker.process = 2;
  const auto second = Join(worker);
  ASSERT_TRUE(first.status.ok() && second.status.ok());
  EXPECT_EQ(second.index, 1u);
  // Its reply was lost, so it asks again.
  const auto again = Join(worker);
  EXPECT_EQ(again.index, 1u) << "its former self is gone";
}

TEST_F(CoordinatorJoinTest, MembersOfAGroupHaveTheirOwnAddresses) {
  config_.strategy = Defaults(StrategyKind::kAllReduce, 2);
  Start({});
  JoinRequest worker = Server("10.0.0.1:7", 1);
  worker.role = Role::kWorker;
  ASSERT_TRUE(Join(worker).status.ok());
  worker.process = 2;
  EXPECT_THAT(std::string(Join(worker).status.message()), HasSubstr("of worker 0"));
}

TEST_F(CoordinatorJoinTest, AnAddressOfOneHostIsRefusedOnAnother) {
  config_.network = 1;
  Start({});
  for (const std::string host : {"127.0.0.1", "127.8.9.1", "0.0.0.0", "localhost", "[::1]", "[::]",
                                 "[::ffff:127.0.0.1]", "[::ffff:0.0.0.0]"}) {
    JoinRequest request = On(2, Server(host + ":7", 1));
    EXPECT_TRUE(Join(On(1, request)).status.ok()) << host << " on the coordinator's host";
    EXPECT_TRUE(Join(On(0, request)).status.ok()) << host << " on an unknown host";
    request.local_host = "10.0.0.9";
    const Status status = Join(request).status;
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << host;
    EXPECT_EQ(status.message(), "this ps has the address " + host +
                                    ":7, which the coordinator's host cannot reach; start it with --listen "
                                    "10.0.0.9:7, or with --advertise 10.0.0.9:7");
    for (const char* unknown : {"", "127.0.0.1"}) {
      request.local_host = unknown;
      EXPECT_THAT(std::string(Join(request).status.message()), HasSubstr("--advertise HOST:7 (an address"));
    }
  }
  for (const char* address : {"10.0.0.9:7", "ps-0.cluster:7", "[2001:db8::1]:7", "128.0.0.1:7"}) {
    EXPECT_TRUE(Join(On(2, Server(address, 1))).status.ok()) << address;
  }
}

TEST_F(CoordinatorJoinTest, AWorkerElsewhereIsToldWhichServerItCannotReach) {
  config_.network = 1;
  Start({});
  const auto server = Join(On(1, Server("127.0.0.1:7", 1, "a")));
  JoinRequest worker = On(2, Server("127.0.0.1:9", 2, "b"));
  worker.role = Role::kWorker;
  const Status status = Join(worker).status;
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("ps 0 (node " + ToString(server.node) + ", host a, pid 101)"),
                    HasSubstr("127.0.0.1:7"), HasSubstr("this worker on host b cannot reach")));
  EXPECT_TRUE(Join(On(1, worker)).status.ok());
}

TEST_F(CoordinatorJoinTest, AServerIsToldWhichWorkerCannotReachIt) {
  config_.network = 1;
  Start({});
  JoinRequest worker = On(2, Server("", 2, "b"));
  worker.role = Role::kWorker;
  ASSERT_TRUE(Join(worker).status.ok());
  const Status status = Join(On(1, Server("127.0.0.1:7", 1, "a"))).status;
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("which worker 0 on host b cannot reach"));
  EXPECT_TRUE(Join(On(1, Server("10.0.0.1:7", 1, "a"))).status.ok());
}

}  // namespace
}  // namespace leat::protocol
