#include "run/roles/commit/stalled_replies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <variant>

#include "run/roles/commit/open_calls.h"

namespace leat::roles {
namespace {

using protocol::ControlReply;
using protocol::ServerHeartbeat;
using protocol::ServerHeartbeatReply;
using protocol::WorkerHeartbeat;
using protocol::WorkerHeartbeatReply;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

ServerHeartbeat HeartbeatOf(uint64_t node) {
  ServerHeartbeat heartbeat;
  heartbeat.node = NodeId(node);
  return heartbeat;
}

TEST(StalledRepliesTest, AWorkerKeepsWhatItHas) {
  WorkerHeartbeatReply reply{.term = 3};
  reply.leases.resize(2);
  reply.revoked = {7};
  ControlReply stripped = reply;
  EXPECT_TRUE(StalledReplies().Strip(WorkerHeartbeat(), true, true, &stripped));
  const auto& told = std::get<WorkerHeartbeatReply>(stripped);
  EXPECT_EQ(told.term, 3u);
  EXPECT_THAT(told.leases, IsEmpty());
  EXPECT_THAT(told.revoked, ElementsAre(7));
}

TEST(StalledRepliesTest, AServerIsToldWhatItWasToldBefore) {
  StalledReplies replies;
  ControlReply reply = ServerHeartbeatReply{.term = 3};
  EXPECT_FALSE(replies.Strip(HeartbeatOf(5), true, true, &reply)) << "it has not been told its slices";
  replies.OnServer(1, NodeId(5));
  replies.OnReply(1, ServerHeartbeatReply{.term = 2});
  EXPECT_TRUE(replies.Strip(HeartbeatOf(5), true, true, &reply));
  EXPECT_EQ(std::get<ServerHeartbeatReply>(reply).term, 2u);
  replies.OnView({});
  EXPECT_FALSE(replies.Strip(HeartbeatOf(5), true, true, &reply)) << "it is no member any more";
}

TEST(StalledRepliesTest, AServerThatKnowsAnotherCoordinatorIsNotHeldToItsSlices) {
  ControlReply reply = ServerHeartbeatReply{.term = 3};
  EXPECT_TRUE(StalledReplies().Strip(HeartbeatOf(5), false, true, &reply));
  EXPECT_EQ(std::get<ServerHeartbeatReply>(reply).term, 3u);
}

TEST(StalledRepliesTest, NobodyIsSentAwayByACoordinatorThatMayHaveBeenReplaced) {
  ControlReply reply = WorkerHeartbeatReply{.stop = true};
  EXPECT_FALSE(StalledReplies().Strip(WorkerHeartbeat(), true, false, &reply));
  EXPECT_TRUE(StalledReplies().Strip(WorkerHeartbeat(), true, true, &reply));
  EXPECT_TRUE(std::get<WorkerHeartbeatReply>(reply).stop);
}

TEST(StalledRepliesTest, OtherRepliesWait) {
  ControlReply reply = protocol::JoinReply();
  EXPECT_FALSE(StalledReplies().Strip(protocol::JoinRequest(), true, true, &reply));
}

TEST(OpenCallsTest, IsAnsweredOnceAndEarlyAtMost) {
  OpenCalls calls(protocol::MakeTerm(9, 2));
  int answers = 0;
  const uint64_t call = calls.Open(WorkerHeartbeat(), [&](const ControlReply&) { ++answers; });
  calls.AnswerEarly(call, WorkerHeartbeatReply());
  EXPECT_EQ(answers, 1);
  const auto closed = calls.Close(call);
  ASSERT_TRUE(closed);
  closed->answer(WorkerHeartbeatReply());
  EXPECT_EQ(answers, 1);
  EXPECT_FALSE(calls.Close(call));
}

TEST(OpenCallsTest, KnowsMembersOfAFormerCoordinator) {
  OpenCalls calls(protocol::MakeTerm(9, 2));
  const auto former = [&](uint64_t term) {
    WorkerHeartbeat heartbeat;
    heartbeat.term = term;
    return calls.IsFormer(calls.Open(heartbeat, nullptr));
  };
  EXPECT_TRUE(former(protocol::MakeTerm(9, 1)));
  EXPECT_FALSE(former(protocol::MakeTerm(9, 2)));
  EXPECT_FALSE(former(protocol::MakeTerm(8, 1))) << "another run";
  EXPECT_FALSE(former(0)) << "the member does not know";
}

}  // namespace
}  // namespace leat::roles
