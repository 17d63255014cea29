#include "protocol/allreduce/group_member.h"

#include <gtest/gtest.h>

namespace leat::protocol {
namespace {

const NodeId kPuller(5), kAnswerer(6);

View MakeView() {
  View view;
  view.generation = Generation(3);
  view.members = {{kPuller, Role::kServe, 0, ""}, {kAnswerer, Role::kWorker, 0, "w"}};
  return view;
}

PushRequest Pull(NodeId node) {
  PushRequest request;
  request.sequence = 4;
  request.worker = node;
  request.generation = Generation(3);
  request.slices = {{SliceId(0), Incarnation(8), 11}, {SliceId(1), Incarnation(8), 10}, {SliceId(2), {}, 0}};
  return request;
}

TEST(PullAnswer, SendsWhatTheFollowerDoesNotHave) {
  const PushReply reply = AnswerPull(Pull(kPuller), MakeView(), MemberValues{Incarnation(8), 11});
  EXPECT_EQ(reply.sequence, 4u);
  EXPECT_EQ(reply.generation, Generation(3));
  EXPECT_FALSE(reply.evicted);
  ASSERT_EQ(reply.slices.size(), 3u);
  EXPECT_FALSE(reply.slices[0].values);
  EXPECT_TRUE(reply.slices[1].values);
  EXPECT_TRUE(reply.slices[2].values);
  for (const SliceReply& slice : reply.slices) {
    EXPECT_EQ(slice.outcome, SliceOutcome::kPulled);
    EXPECT_EQ(slice.incarnation, Incarnation(8));
    EXPECT_EQ(slice.version, 11u);
  }
}

TEST(PullAnswer, HasNothingWhileAGroupForms) {
  const PushReply reply = AnswerPull(Pull(kPuller), MakeView(), std::nullopt);
  EXPECT_FALSE(reply.evicted);
  for (const SliceReply& slice : reply.slices) {
    EXPECT_EQ(slice.outcome, SliceOutcome::kNotHere);
    EXPECT_FALSE(slice.values);
  }
}

TEST(PullAnswer, OnlyMembersThatServeFollow) {
  const MemberValues values{Incarnation(8), 11};
  EXPECT_TRUE(AnswerPull(Pull(kAnswerer), MakeView(), values).evicted);
  EXPECT_TRUE(AnswerPull(Pull(NodeId(99)), MakeView(), values).evicted);
  // It has joined since.
  PushRequest newer = Pull(NodeId(99));
  newer.generation = Generation(4);
  EXPECT_FALSE(AnswerPull(newer, MakeView(), values).evicted);
}

TEST(PullAnswer, RequestsAreChecked) {
  EXPECT_TRUE(CheckPull(Pull(kPuller), 3).ok());
  EXPECT_FALSE(CheckPull(Pull(kPuller), 2).ok());
  PushRequest request = Pull(kPuller);
  std::swap(request.slices[0], request.slices[1]);
  EXPECT_FALSE(CheckPull(request, 3).ok());
  request = Pull(kPuller);
  request.disposition = Disposition::kEmpty;
  EXPECT_FALSE(CheckPull(request, 3).ok());
  request = Pull(kPuller);
  request.step_lane = StepLane{};
  EXPECT_FALSE(CheckPull(request, 3).ok());
  request = Pull(kPuller);
  request.version_wanted = 12;
  EXPECT_FALSE(CheckPull(request, 3).ok());
}

}  // namespace
}  // namespace leat::protocol
