#include "protocol/subscribers/subscriber.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace leat::protocol {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const NodeId kMe(9), kNear(1), kFar(2);

template <class T>
std::vector<T> AllValues(const SubscriberActions& actions) {
  std::vector<T> found;
  for (const SubscriberAction& action : actions) {
    if (const auto* a = std::get_if<T>(&action)) found.push_back(*a);
  }
  return found;
}

// A subscriber of two servers, which the test plays: slice i is on server i mod 2.
class SubscriberTest : public ::testing::Test {
 protected:
  SubscriberTest() {
    config_.table = MakeSlices({{"w", Shape{64}, {}}}, 1, 1);
    config_.table.slices.resize(4);
    view_.members = {
        {kNear, Role::kServer, 0, "a"}, {kFar, Role::kServer, 1, "b"}, {kMe, Role::kServe, 0, ""}};
    for (uint32_t i = 0; i < 4; ++i)
      view_.slices.push_back({i % 2 == 0 ? kNear : kFar, Incarnation(20), true});
    Make();
  }

  void Make() {
    subscriber_ = std::make_unique<Subscriber>(config_);
    subscriber_->OnJoined(kMe, 5);
  }
  SubscriberActions Hear() {
    view_.generation = Generation(view_.generation.value + 1);
    return subscriber_->OnHeartbeatReply(now_, {.term = 5, .view = view_});
  }
  // The view, and the first requests.
  std::vector<SendPush> Begin() {
    EXPECT_EQ(AllValues<BeginSweep>(Hear()).size(), 1u);
    return AllValues<SendPush>(subscriber_->OnRoom(now_, &held_));
  }
  // The slices that a server has of a request, at a version.
  static PushReply Answer(const SendPush& push, uint64_t version, uint64_t incarnation = 20) {
    PushReply reply{push.request->sequence, Generation(1), false, {}, {}};
    for (const SliceRef& ref : push.request->slices) {
      const bool news = ref.version != version || ref.incarnation != Incarnation(incarnation);
      reply.slices.push_back({ref.slice, SliceOutcome::kPulled, news, Incarnation(incarnation), version});
    }
    return reply;
  }
  static std::vector<uint32_t> SlicesOf(const SendPush& push) {
    std::vector<uint32_t> slices;
    for (const SliceRef& ref : push.request->slices) slices.push_back(ref.slice.value);
    return slices;
  }
  SubscriberActions Reply(const SendPush& push, const PushReply& reply) {
    return subscriber_->OnPushReply(now_, push.server, reply);
  }
  // The next sweep, in which both servers have this version.
  CompleteSweep Sweep(uint64_t version) {
    now_ = std::max(now_, subscriber_->next_timer());
    EXPECT_EQ(AllValues<BeginSweep>(subscriber_->OnTimer(now_)).size(), 1u);
    SubscriberActions last;
    for (const SendPush& push : AllValues<SendPush>(subscriber_->OnRoom(now_, &held_)))
      last = Reply(push, Answer(push, version));
    return AllValues<CompleteSweep>(last).at(0);
  }

  SubscriberConfig config_;
  Time now_{seconds(100)};
  View view_;
  SubscribedValues held_{4};
  std::unique_ptr<Subscriber> subscriber_;
};

TEST_F(SubscriberTest, ASweepAsksEachServerOnce) {
  const auto pushes = Begin();
  ASSERT_EQ(pushes.size(), 2u);
  EXPECT_EQ(pushes[0].server, kNear);
  EXPECT_EQ(pushes[0].address, "a");
  EXPECT_THAT(SlicesOf(pushes[0]), ElementsAre(0, 2));
  EXPECT_THAT(SlicesOf(pushes[1]), ElementsAre(1, 3));
  for (const SendPush& push : pushes) {
    EXPECT_EQ(push.request->disposition, Disposition::kPull);
    EXPECT_EQ(push.request->worker, kMe);
    EXPECT_FALSE(push.request->step_lane);
    EXPECT_EQ(push.request->version_wanted, 0u);
  }
  const Time asked = now_;
  now_ += milliseconds(3);
  EXPECT_THAT(Reply(pushes[0], Answer(pushes[0], 7)), IsEmpty());
  const auto done = AllValues<CompleteSweep>(Reply(pushes[1], Answer(pushes[1], 8)));
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].asked, asked);
  EXPECT_TRUE(done[0].changed);
  EXPECT_EQ(held_.slices[2], (SliceRef{SliceId(2), Incarnation(20), 7}));
  EXPECT_EQ(held_.slices[3], (SliceRef{SliceId(3), Incarnation(20), 8}));
  EXPECT_EQ(subscriber_->next_timer(), asked + config_.refresh);
  uint64_t bytes = 0;
  for (const SliceSpec& slice : config_.table.slices) bytes += slice.elements() * sizeof(float);
  EXPECT_EQ(subscriber_->progress().bytes_in, bytes);
}

TEST_F(SubscriberTest, SaysWhatItHasAndWhetherAnythingChanged) {
  for (const SendPush& push : Begin()) Reply(push, Answer(push, 7));
  EXPECT_FALSE(Sweep(7).changed);
  EXPECT_TRUE(Sweep(8).changed);
  // Other memory has older values. Filling it is no change.
  held_.Forget();
  EXPECT_FALSE(Sweep(8).changed);
  EXPECT_EQ(held_.slices[0].version, 8u);
  EXPECT_EQ(subscriber_->progress().rounds, 4u);
  EXPECT_EQ(subscriber_->progress().changed, 2u);
}

TEST_F(SubscriberTest, ASliceThatHasMovedIsAskedForWhereItIs) {
  const auto pushes = Begin();
  PushReply reply = Answer(pushes[0], 7);
  reply.slices[1] = {SliceId(2), SliceOutcome::kNotHere, false, Incarnation(), 0};
  EXPECT_THAT(Reply(pushes[0], reply), IsEmpty());
  EXPECT_TRUE(subscriber_->HeartbeatUrgent());
  Reply(pushes[1], Answer(pushes[1], 7));
  (void)subscriber_->MakeHeartbeat();
  EXPECT_FALSE(subscriber_->HeartbeatUrgent());
  view_.slices[2].server = kFar;
  const auto again = AllValues<SendPush>(Hear());
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].server, kFar);
  EXPECT_THAT(SlicesOf(again[0]), ElementsAre(2));
  EXPECT_EQ(AllValues<CompleteSweep>(Reply(again[0], Answer(again[0], 9))).size(), 1u);
}

TEST_F(SubscriberTest, WithoutANewerViewTheSameServerIsAskedAgain) {
  const auto pushes = Begin();
  PushReply reply = Answer(pushes[0], 7);
  reply.slices[0] = {SliceId(0), SliceOutcome::kNotHere, false, Incarnation(), 0};
  Reply(pushes[0], reply);
  Reply(pushes[1], Answer(pushes[1], 7));
  EXPECT_EQ(subscriber_->next_timer(), now_ + config_.retry_interval);
  now_ += config_.retry_interval;
  const auto again = AllValues<SendPush>(subscriber_->OnTimer(now_));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_THAT(SlicesOf(again[0]), ElementsAre(0));
}

TEST_F(SubscriberTest, RestoredSlicesGoBack) {
  for (const SendPush& push : Begin()) Reply(push, Answer(push, 7));
  for (auto& place : view_.slices) place.incarnation = Incarnation(30);
  now_ = subscriber_->next_timer();
  ASSERT_EQ(AllValues<BeginSweep>(Hear()).size(), 1u);
  const auto pushes = AllValues<SendPush>(subscriber_->OnRoom(now_, &held_));
  // A server that does not know yet.
  Reply(pushes[0], Answer(pushes[0], 7));
  EXPECT_TRUE(AllValues<CompleteSweep>(Reply(pushes[1], Answer(pushes[1], 3, 30))).empty());
  now_ = subscriber_->next_timer();
  const auto again = AllValues<SendPush>(subscriber_->OnTimer(now_));
  const auto done = AllValues<CompleteSweep>(Reply(again.at(0), Answer(again.at(0), 3, 30)));
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(done[0].changed);
  EXPECT_EQ(held_.slices[0], (SliceRef{SliceId(0), Incarnation(30), 3}));
}

TEST_F(SubscriberTest, ASweepDoesNotMixWhatWasBeforeARestoreAndAfterIt) {
  const auto pushes = Begin();
  Reply(pushes[0], Answer(pushes[0], 7));
  for (auto& place : view_.slices) place.incarnation = Incarnation(30);
  const auto again = AllValues<SendPush>(Hear());
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].server, kNear);
  Reply(pushes[1], Answer(pushes[1], 3, 30));
  EXPECT_EQ(AllValues<CompleteSweep>(Reply(again[0], Answer(again[0], 3, 30))).size(), 1u);
}

TEST_F(SubscriberTest, ValuesWhoseArrivalWasInterruptedAreUnknown) {
  for (const SendPush& push : Begin()) Reply(push, Answer(push, 7));
  now_ = subscriber_->next_timer();
  subscriber_->OnTimer(now_);
  const auto pushes = AllValues<SendPush>(subscriber_->OnRoom(now_, &held_));
  EXPECT_EQ(pushes[0].request->slices[0].version, 7u);
  subscriber_->OnPushFailed(now_, kNear, pushes[0].request->sequence);
  EXPECT_EQ(held_.slices[0], (SliceRef{SliceId(0), {}, 0}));
  EXPECT_EQ(held_.slices[1].version, 7u);
  EXPECT_EQ(subscriber_->failing(), kNear);
  Reply(pushes[1], Answer(pushes[1], 7));
  // Each further failure doubles the pause.
  for (const int factor : {1, 2, 4, 8, 16, 20, 20}) {
    EXPECT_EQ(subscriber_->next_timer(), now_ + factor * config_.retry_interval);
    now_ = subscriber_->next_timer();
    const auto again = AllValues<SendPush>(subscriber_->OnTimer(now_));
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(again[0].request->slices[0].version, 0u);
    subscriber_->OnPushFailed(now_, kNear, again[0].request->sequence);
  }
}

TEST_F(SubscriberTest, AServerThatDoesNotAnswerIsDisconnectedAndAskedAgain) {
  const auto pushes = Begin();
  Reply(pushes[1], Answer(pushes[1], 7));
  EXPECT_EQ(subscriber_->next_timer(), now_ + config_.reply_timeout);
  now_ = subscriber_->next_timer();
  const auto actions = subscriber_->OnTimer(now_);
  ASSERT_EQ(AllValues<Disconnect>(actions).size(), 1u);
  EXPECT_EQ(AllValues<Disconnect>(actions)[0].server, kNear);
  EXPECT_THAT(Reply(pushes[0], Answer(pushes[0], 7)), IsEmpty());  // late
  EXPECT_EQ(held_.slices[0].version, 0u);
  now_ = subscriber_->next_timer();
  EXPECT_EQ(AllValues<SendPush>(subscriber_->OnTimer(now_)).size(), 1u);
}

TEST_F(SubscriberTest, AServerThatHasGoneIsForgotten) {
  const auto pushes = Begin();
  Reply(pushes[1], Answer(pushes[1], 7));
  std::erase_if(view_.members, [](const Member& member) { return member.node == kNear; });
  for (auto& place : view_.slices) place = {kFar, Incarnation(30), true};
  const auto actions = Hear();
  EXPECT_EQ(AllValues<Disconnect>(actions).at(0).server, kNear);
  const auto again = AllValues<SendPush>(actions);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_THAT(SlicesOf(again[0]), ElementsAre(0, 1, 2, 3));
}

TEST_F(SubscriberTest, PullingTakesAFifthOfTheTimeAtMost) {
  const auto pushes = Begin();
  const Time asked = now_;
  now_ += milliseconds(19);
  Reply(pushes[0], Answer(pushes[0], 7));
  now_ += milliseconds(2);
  Reply(pushes[1], Answer(pushes[1], 7));
  EXPECT_EQ(subscriber_->next_timer(), asked + milliseconds(105));
  EXPECT_EQ(subscriber_->progress().stretched, 1u);
  EXPECT_DOUBLE_EQ(subscriber_->progress().interval_seconds, 0.105);
  // Together with all others that follow.
  view_.members.push_back({NodeId(10), Role::kServe, 1, ""});
  view_.members.push_back({NodeId(11), Role::kServe, 2, ""});
  now_ = subscriber_->next_timer();
  ASSERT_EQ(AllValues<BeginSweep>(Hear()).size(), 1u);
  const Time second = now_;
  const auto more = AllValues<SendPush>(subscriber_->OnRoom(now_, &held_));
  now_ += milliseconds(10);
  for (const SendPush& push : more) Reply(push, Answer(push, 7));
  EXPECT_EQ(subscriber_->next_timer(), second + milliseconds(150));
}

TEST_F(SubscriberTest, WithoutRoomItAsksAgain) {
  EXPECT_EQ(AllValues<BeginSweep>(Hear()).size(), 1u);
  EXPECT_EQ(subscriber_->next_timer(), Time::max());
  EXPECT_THAT(subscriber_->OnRoom(now_, nullptr), IsEmpty());
  EXPECT_EQ(subscriber_->next_timer(), now_ + config_.room_interval);
  EXPECT_THAT(subscriber_->OnTimer(now_), IsEmpty());
  now_ += config_.room_interval;
  EXPECT_EQ(AllValues<BeginSweep>(subscriber_->OnTimer(now_)).size(), 1u);
}

TEST_F(SubscriberTest, RepliesThatDoNotFitAreFailures) {
  const auto pushes = Begin();
  PushReply reply = Answer(pushes[0], 7);
  reply.slices.pop_back();
  EXPECT_EQ(AllValues<Disconnect>(Reply(pushes[0], reply)).size(), 1u);
  EXPECT_EQ(subscriber_->progress().retries, 1u);
  // Values of a version are said to be here, and are not.
  PushReply without = Answer(pushes[1], 7);
  for (auto& slice : without.slices) slice.values = false;
  EXPECT_TRUE(AllValues<CompleteSweep>(Reply(pushes[1], without)).empty());
  EXPECT_EQ(held_.slices[1].version, 0u);
}

TEST_F(SubscriberTest, FollowsTheHighestTermAndEndsWhenToldSo) {
  Begin();
  EXPECT_THAT(subscriber_->OnHeartbeatReply(now_, {.term = 4, .stop = true}), IsEmpty());
  EXPECT_THAT(subscriber_->OnHeartbeatReply(now_, {.term = 6}), IsEmpty());
  EXPECT_EQ(subscriber_->MakeHeartbeat().term, 6u);
  const auto actions = subscriber_->OnHeartbeatReply(now_, {.term = 6, .evicted = true});
  EXPECT_EQ(AllValues<Disconnect>(actions).size(), 2u);
  EXPECT_TRUE(AllValues<StopRole>(actions).at(0).evicted);
  EXPECT_EQ(subscriber_->next_timer(), Time::max());
}

TEST_F(SubscriberTest, ValuesOfAnotherRunAreUnknown) {
  for (const SendPush& push : Begin()) Reply(push, Answer(push, 7));
  Make();
  EXPECT_EQ(Begin().at(0).request->slices[0].version, 7u);
  Make();
  subscriber_->OnJoined(kMe, MakeTerm(8, 1));
  view_.generation = Generation(100);
  ASSERT_EQ(
      AllValues<BeginSweep>(subscriber_->OnHeartbeatReply(now_, {.term = MakeTerm(8, 1), .view = view_}))
          .size(),
      1u);
  const auto pushes = AllValues<SendPush>(subscriber_->OnRoom(now_, &held_));
  EXPECT_EQ(pushes.at(0).request->slices[0], (SliceRef{SliceId(0), {}, 0}));
}

TEST_F(SubscriberTest, LeavesWhenItIsDrained) {
  Begin();
  subscriber_->OnHeartbeatReply(now_, {.term = 5, .drain = true});
  EXPECT_TRUE(subscriber_->HeartbeatUrgent());
  EXPECT_TRUE(subscriber_->MakeHeartbeat().leaving);
  const auto actions = subscriber_->OnHeartbeatReply(now_, {.term = 5, .stop = true});
  EXPECT_FALSE(AllValues<StopRole>(actions).at(0).evicted);
}

TEST_F(SubscriberTest, WithoutServersOneMemberIsAskedAndThenAnother) {
  config_.on_servers = false;
  Make();
  view_.members = {{kNear, Role::kWorker, 0, "a"}, {kFar, Role::kWorker, 1, "b"}, {kMe, Role::kServe, 0, ""}};
  const auto pushes = Begin();
  ASSERT_EQ(pushes.size(), 1u);
  EXPECT_THAT(SlicesOf(pushes[0]), ElementsAre(0, 1, 2, 3));
  const NodeId first = pushes[0].server;
  const auto second =
      AllValues<SendPush>(subscriber_->OnPushFailed(now_, first, pushes[0].request->sequence));
  ASSERT_EQ(second.size(), 1u);
  EXPECT_NE(second[0].server, first);
  EXPECT_EQ(AllValues<CompleteSweep>(Reply(second[0], Answer(second[0], 7))).size(), 1u);
  // It stays with a member that answers.
  now_ = subscriber_->next_timer();
  subscriber_->OnTimer(now_);
  EXPECT_EQ(AllValues<SendPush>(subscriber_->OnRoom(now_, &held_)).at(0).server, second[0].server);
}

}  // namespace
}  // namespace leat::protocol
