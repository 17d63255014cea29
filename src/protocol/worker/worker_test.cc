#include "protocol/worker/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "base/rng.h"
#include "protocol/worker/testing.h"

namespace leat::protocol {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Le;

TEST_F(WorkerTest, PullsOnceThenTrainsBatchByBatch) {
  EXPECT_EQ(worker_.MakeHeartbeat({}).leases_wanted, 2u);
  auto actions = Reply(MakeView(5), {MakeLease(1, 2)});
  ASSERT_EQ(All<PrepareSplit>(actions).size(), 1u);
  const auto pulls = All<SendPush>(actions);
  ASSERT_EQ(pulls.size(), 2u);
  EXPECT_EQ(pulls[0].server, kA);
  EXPECT_EQ(pulls[0].address, "ps-1");
  EXPECT_EQ(pulls[0].request->disposition, Disposition::kPull);
  EXPECT_EQ(pulls[0].request->worker, kSelf);
  EXPECT_EQ(pulls[0].request->generation, Generation(5));
  EXPECT_THAT(pulls[0].request->slices,
              ElementsAre(SliceRef{SliceId(0), Incarnation(1), 0}, SliceRef{SliceId(1), Incarnation(2), 0}));

  EXPECT_THAT(worker_.OnSplitReady(now_, 1), IsEmpty()) << "values first";
  EXPECT_THAT(Answer(pulls[0], 10), IsEmpty());
  actions = Answer(pulls[1], 20);
  for (uint32_t batch = 0; batch < 2; ++batch) {
    const auto compute = All<Compute>(actions).at(0);
    EXPECT_EQ(compute.lease, 1u);
    EXPECT_EQ(compute.batch, batch);
    const auto pushes = All<SendPush>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
    ASSERT_EQ(pushes.size(), 2u);
    EXPECT_EQ(pushes[1].request->disposition, Disposition::kGradient);
    EXPECT_EQ(pushes[1].request->events, 7u);
    EXPECT_EQ(pushes[1].request->run, batch);
    EXPECT_EQ(pushes[1].request->cut, MakeLease(1, 2).cut);
    EXPECT_EQ(pushes[1].request->slices[0].version, 20u + batch) << "of the values that it was computed from";
    EXPECT_THAT(Answer(pushes[0], 11), IsEmpty());
    actions = Answer(pushes[1], 21 + batch);
  }
  ASSERT_EQ(All<DropSplit>(actions).size(), 1u);
  EXPECT_TRUE(worker_.idle());
  EXPECT_TRUE(worker_.HeartbeatUrgent());
  EXPECT_THAT(worker_.MakeHeartbeat({}).released, ElementsAre(1));
}

TEST_F(WorkerTest, TheRateOfALeaseGoesWithItsRuns) {
  AnswerAll(Reply(MakeView(5)));
  Lease raised = MakeLease(1, 1), usual = MakeLease(2, 1);
  raised.rate = 2.5f;
  Reply({}, {raised, usual});
  auto actions = worker_.OnSplitReady(now_, 1);
  worker_.OnSplitReady(now_, 2);
  for (const float rate : {2.5f, 1.0f}) {
    const auto compute = All<Compute>(actions).at(0);
    EXPECT_EQ(compute.rate, rate);
    const auto pushes = worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7});
    for (const SendPush& push : All<SendPush>(pushes)) EXPECT_EQ(push.request->rate, rate);
    actions = AnswerAll(pushes);
  }
}

TEST_F(WorkerTest, LeasesHaveLabelsExactlyIfTheJobHasLateLabels) {
  for (const bool late : {false, true}) {
    WorkerConfig config = MakeConfig();
    config.late_labels = late;
    Worker worker(config);
    worker.OnJoined(kSelf);
    Lease with = MakeLease(1), without = MakeLease(2);
    with.labels = {7, 9};
    WorkerHeartbeatReply reply;
    reply.leases = {with, without};
    const auto prepared = All<PrepareSplit>(worker.OnHeartbeatReply(now_, reply));
    ASSERT_EQ(prepared.size(), 1u);
    EXPECT_EQ(prepared[0].lease, late ? with : without) << "the loader gets the labels";
    EXPECT_THAT(worker.MakeHeartbeat(now_).released, ElementsAre(late ? 2 : 1));
  }
}

TEST_F(WorkerTest, ConflictsArePausedAfterForLongerAndLonger) {
  AnswerAll(Reply(MakeView(5)));
  std::vector<Duration> pauses;
  for (uint64_t lease = 1; lease <= 9; ++lease) {
    Reply({}, {MakeLease(lease, 5)});
    WorkerActions actions = worker_.OnSplitReady(now_, lease);
    if (All<Compute>(actions).empty()) {
      EXPECT_GT(worker_.next_timer(), now_);
      pauses.push_back(worker_.next_timer() - now_);
      EXPECT_THAT(worker_.OnTimer(now_ + milliseconds(49)), IsEmpty());
      now_ = worker_.next_timer();
      actions = worker_.OnTimer(now_);
    }
    const Compute compute = All<Compute>(actions).at(0);
    const auto pushes = All<SendPush>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
    // Two slices of the first server refuse it: one conflict.
    PushReply refused = Ok(*pushes[0].request);
    for (SliceReply& slice : refused.slices) slice.outcome = SliceOutcome::kConflict;
    worker_.OnPushReply(now_, pushes[0].server, refused);
    actions = Answer(pushes[1]);
    EXPECT_TRUE(All<Compute>(actions).empty());
    EXPECT_EQ(All<DropSplit>(actions).size(), 1u) << "the rest of the split would be refused, too";
    EXPECT_THAT(worker_.MakeHeartbeat(now_).released, ElementsAre(lease));
  }
  ASSERT_EQ(pauses.size(), 8u);
  for (size_t i = 0; i < pauses.size(); ++i) {
    const Duration least = std::min<Duration>(seconds(2), milliseconds(50 << i));
    EXPECT_GE(pauses[i], least) << i;
    EXPECT_LE(pauses[i], least * 3 / 2) << i;
  }
  EXPECT_NE(pauses[6], pauses[7]) << "at random";

  // A run that is taken ends it.
  now_ = worker_.next_timer();
  worker_.OnTimer(now_);
  Reply({}, {MakeLease(20, 1)});
  Compute compute = All<Compute>(worker_.OnSplitReady(now_, 20)).at(0);
  AnswerAll(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
  Reply({}, {MakeLease(21, 1)});
  compute = All<Compute>(worker_.OnSplitReady(now_, 21)).at(0);
  const auto pushes = All<SendPush>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
  PushReply refused = Ok(*pushes[0].request);
  refused.slices[1].outcome = SliceOutcome::kConflict;
  worker_.OnPushReply(now_, pushes[0].server, refused);
  Answer(pushes[1]);
  Reply({}, {MakeLease(22, 1)});
  EXPECT_THAT(All<Compute>(worker_.OnSplitReady(now_, 22)), IsEmpty());
  EXPECT_THAT(All<Compute>(worker_.OnTimer(now_ + milliseconds(75))), ::testing::SizeIs(1));
}

TEST_F(WorkerTest, AServerWhoseRequestsFailForTwoSecondsIsReportedUntilItAnswers) {
  const Compute compute = Started();
  auto pushes = All<SendPush>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
  ASSERT_EQ(pushes.size(), 2u);
  EXPECT_TRUE(worker_.MakeHeartbeat(now_).waiting);
  Answer(pushes[0]);
  SendPush last = pushes[1];
  const auto fail = [&] {
    worker_.OnPushFailed(now_, kB, last.request->sequence, Status(Code::kUnavailable, "no route"));
    now_ = worker_.next_timer();
    last = All<SendPush>(worker_.OnTimer(now_)).at(0);
  };
  fail();
  EXPECT_THAT(worker_.MakeHeartbeat(now_).unreachable, IsEmpty()) << "once is nothing";
  now_ += seconds(2);
  fail();
  EXPECT_THAT(worker_.MakeHeartbeat(now_).unreachable, ElementsAre(kB));
  fail();
  EXPECT_THAT(worker_.MakeHeartbeat(now_).unreachable, ElementsAre(kB));
  Answer(last);
  EXPECT_THAT(worker_.MakeHeartbeat(now_).unreachable, IsEmpty());
}

TEST_F(WorkerTest, AServerWhoseHostIsSilentIsReportedWhileARequestIsOpen) {
  const Compute compute = Started();
  worker_.OnSilence(kB, true);
  EXPECT_THAT(worker_.MakeHeartbeat(now_).unreachable, IsEmpty()) << "nothing is asked of it";
  worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7});
  EXPECT_THAT(worker_.MakeHeartbeat(now_).unreachable, ElementsAre(kB));
  now_ += seconds(11);
  worker_.OnTimer(now_);  // the reply is late, and the connection is given up
  EXPECT_THAT(worker_.MakeHeartbeat(now_).unreachable, ElementsAre(kB));
  now_ += milliseconds(50);
  const auto again = All<SendPush>(worker_.OnTimer(now_));
  ASSERT_EQ(again.size(), 2u);
  worker_.OnSilence(kB, false);  // the new connection
  EXPECT_THAT(worker_.MakeHeartbeat(now_).unreachable, IsEmpty());
  worker_.OnSilence(kB, true);
  Answer(again[1]);
  EXPECT_THAT(worker_.MakeHeartbeat(now_).unreachable, IsEmpty());
}

TEST_F(WorkerTest, AServerWhoseHostDoesNotAnswerTheFirstConnectionIsReportedAtOnce) {
  const Compute compute = Started();
  const auto pushes = All<SendPush>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
  now_ += milliseconds(7500);
  worker_.OnSilence(kB, true);
  worker_.OnPushFailed(now_, kB, pushes.at(1).request->sequence,
                       Status(Code::kDeadlineExceeded, "no answer"));
  EXPECT_TRUE(worker_.HeartbeatUrgent());
  EXPECT_THAT(worker_.MakeHeartbeat(now_).unreachable, ElementsAre(kB));
  now_ += milliseconds(50);
  worker_.OnTimer(now_);
  worker_.OnSilence(kB, false);  // it is connected; that was one failure
  EXPECT_THAT(worker_.MakeHeartbeat(now_).unreachable, IsEmpty());
}

// A step of others may take longer than the worker waits for a reply before it asks again.
TEST_F(WorkerTest, AServerThatOnlyAnswersLateIsNotReported) {
  const Compute compute = Started();
  worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7});
  for (int i = 0; i < 40; ++i) {
    now_ += seconds(1);
    worker_.OnTimer(now_);
    EXPECT_THAT(worker_.MakeHeartbeat(now_).unreachable, IsEmpty()) << i;
  }
}

TEST_F(WorkerTest, WaitsForServersAndForWorkButNotForItsOwnComputation) {
  EXPECT_TRUE(worker_.MakeHeartbeat(now_).waiting) << "nothing is leased";
  const auto pulls = Reply(MakeView(5), {MakeLease(1)});
  EXPECT_TRUE(worker_.MakeHeartbeat(now_).waiting) << "for values";
  AnswerAll(pulls);
  EXPECT_FALSE(worker_.MakeHeartbeat(now_).waiting) << "it reads the split";
  worker_.OnSplitReady(now_, 1);
  EXPECT_FALSE(worker_.MakeHeartbeat(now_).waiting) << "it computes";
}

TEST_F(WorkerTest, ReportsReleasedLeasesUntilAnswered) {
  const Compute compute = Started(1);
  AnswerAll(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
  EXPECT_THAT(worker_.MakeHeartbeat({}).released, ElementsAre(1));
  EXPECT_FALSE(worker_.HeartbeatUrgent());
  EXPECT_THAT(worker_.MakeHeartbeat({}).released, ElementsAre(1)) << "the first was not answered";
  Reply({}, {MakeLease(2)});
  const auto heartbeat = worker_.MakeHeartbeat({});
  EXPECT_THAT(heartbeat.released, IsEmpty());
  EXPECT_THAT(heartbeat.held, ElementsAre(2));
  EXPECT_EQ(heartbeat.leases_wanted, 1u);
}

TEST_F(WorkerTest, AsksForTwiceWhatItEndsBetweenTwoHeartbeats) {
  const auto grant = [this](uint64_t first, uint64_t count) {
    std::vector<Lease> leases;
    for (uint64_t lease = first; lease < first + count; ++lease) {
      leases.push_back(MakeLease(lease));
      leases.back().missing = RunSet(leases.back().cut.runs());  // nothing of it is left to do
    }
    Reply({}, leases);
    for (const Lease& lease : leases) worker_.OnSplitReady(now_, lease.id);
  };
  AnswerAll(Reply(MakeView(5), {}));
  grant(1, 3);
  auto heartbeat = worker_.MakeHeartbeat({});
  EXPECT_EQ(heartbeat.released.size(), 3u);
  EXPECT_EQ(heartbeat.leases_wanted, 6u);
  grant(4, 1);
  EXPECT_EQ(worker_.MakeHeartbeat({}).leases_wanted, 2u) << "no fewer than ever";
  grant(5, 90);
  EXPECT_EQ(worker_.MakeHeartbeat({}).leases_wanted, 32u);
  Reply({}, {MakeLease(100), MakeLease(101)});
  for (uint64_t lease : {100, 101}) worker_.OnSplitFailed(now_, lease);
  EXPECT_EQ(worker_.MakeHeartbeat({}).leases_wanted, 2u) << "what cannot be read is not asked for faster";
}

TEST_F(WorkerTest, TrainsOnlyWhatIsMissing) {
  AnswerAll(Reply(MakeView(5), {MakeLease(1, 5, {1, 4})}));
  auto actions = worker_.OnSplitReady(now_, 1);
  for (uint32_t batch : {1, 4}) {
    const Compute compute = All<Compute>(actions).at(0);
    EXPECT_EQ(compute.batch, batch);
    actions = AnswerAll(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
  }
  EXPECT_TRUE(worker_.idle());
}

TEST_F(WorkerTest, PreparesTheNextSplitWhileOneTrains) {
  const auto actions = Reply(MakeView(5), {MakeLease(1), MakeLease(2)});
  const auto prepared = All<PrepareSplit>(actions);
  ASSERT_EQ(prepared.size(), 2u);
  EXPECT_EQ(prepared[0].lease.id, 1u);
  EXPECT_EQ(worker_.MakeHeartbeat({}).leases_wanted, 0u);
  AnswerAll(actions);
  EXPECT_EQ(All<Compute>(worker_.OnSplitReady(now_, 2)).at(0).lease, 2u) << "whichever is ready";
}

TEST_F(WorkerTest, EmptyAndRejectedBatchesArePushed) {
  const Compute compute = Started(3);
  auto pushes = worker_.OnComputed(now_, compute.token, {Disposition::kEmpty, 0});
  EXPECT_EQ(All<SendPush>(pushes).at(0).request->disposition, Disposition::kEmpty);
  auto actions = AnswerAll(pushes);
  pushes = worker_.OnComputed(now_, All<Compute>(actions).at(0).token, {Disposition::kRejected, 4});
  EXPECT_EQ(All<SendPush>(pushes).at(0).request->disposition, Disposition::kRejected);
  EXPECT_EQ(All<SendPush>(pushes).at(0).request->events, 4u);
  actions = AnswerAll(pushes);
  pushes = worker_.OnComputed(now_, All<Compute>(actions).at(0).token, {Disposition::kGradient, 0});
  EXPECT_EQ(All<SendPush>(pushes).at(0).request->disposition, Disposition::kEmpty) << "no record was good";
}

TEST_F(WorkerTest, AFailedPushIsRepeatedUnderTheSameIdentity) {
  const Compute compute = Started();
  const auto pushes = All<SendPush>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
  Answer(pushes[1]);
  EXPECT_THAT(worker_.OnPushFailed(now_, kA, pushes[0].request->sequence, Status(Code::kUnavailable, "gone")),
              IsEmpty());
  EXPECT_TRUE(worker_.HeartbeatUrgent()) << "the view may tell more";
  EXPECT_THAT(worker_.next_timer(), AllOf(Ge(now_ + milliseconds(50)), Le(now_ + milliseconds(75))));
  now_ = worker_.next_timer();
  const auto again = All<SendPush>(worker_.OnTimer(now_));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].request->cut, pushes[0].request->cut);
  EXPECT_EQ(again[0].request->run, pushes[0].request->run);
  EXPECT_EQ(again[0].request->slices, pushes[0].request->slices);
  EXPECT_NE(again[0].request->sequence, pushes[0].request->sequence);
  EXPECT_THAT(Answer(pushes[0]), IsEmpty()) << "of the first attempt";
  EXPECT_EQ(All<Compute>(Answer(again[0])).size(), 1u);
}

TEST_F(WorkerTest, RequestsThatFailAgainAndAgainBackOff) {
  const Compute compute = Started();
  auto pushes = All<SendPush>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
  Answer(pushes[1]);
  SendPush last = pushes[0];
  const auto delay = [&] {
    worker_.OnPushFailed(now_, kA, last.request->sequence, Status(Code::kUnavailable, "gone"));
    const Time failed = std::exchange(now_, worker_.next_timer());
    last = All<SendPush>(worker_.OnTimer(now_)).at(0);
    return now_ - failed;
  };
  std::set<Duration> lengths;
  for (const int least : {50, 100, 200, 250, 250, 250}) {
    const Duration length = delay();
    EXPECT_THAT(length, AllOf(Ge(milliseconds(least)), Le(milliseconds(least * 3 / 2))));
    lengths.insert(length);
  }
  EXPECT_EQ(lengths.size(), 6u) << "at random, so that workers do not return together";
  EXPECT_EQ(worker_.push_retries(), 6u);
  const auto next = All<Compute>(Answer(last));
  ASSERT_EQ(next.size(), 1u);
  pushes = All<SendPush>(worker_.OnComputed(now_, next[0].token, {Disposition::kGradient, 7}));
  last = pushes.at(0);
  EXPECT_LE(delay(), milliseconds(75)) << "the server has answered since";
}

TEST_F(WorkerTest, AServerThatDoesNotAnswerIsAskedAgain) {
  const Compute compute = Started();
  const auto pushes = All<SendPush>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
  Answer(pushes[1]);
  EXPECT_EQ(worker_.next_timer(), now_ + seconds(10));
  now_ += seconds(10);
  auto actions = worker_.OnTimer(now_);
  ASSERT_EQ(All<Disconnect>(actions).size(), 1u);
  EXPECT_EQ(All<Disconnect>(actions)[0].server, kA);
  now_ = worker_.next_timer();
  EXPECT_EQ(All<SendPush>(worker_.OnTimer(now_)).size(), 1u);
}

TEST_F(WorkerTest, AMovedSliceIsPulledFromItsNewServerAndTheRestContinues) {
  const Compute compute = Started();
  const auto pushes = All<SendPush>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
  Answer(pushes[1], 30);
  worker_.OnPushFailed(now_, kA, pushes[0].request->sequence, Status(Code::kUnavailable, "gone"));

  // A is lost; for a while its slices have no server.
  auto actions = Reply(MakeView(6, {NodeId(), NodeId(), kB, kB}));
  EXPECT_EQ(All<Disconnect>(actions).size(), 1u);
  EXPECT_THAT(All<SendPush>(actions), IsEmpty());
  EXPECT_THAT(worker_.OnTimer(now_ + seconds(60)), IsEmpty()) << "nothing to be asked of anyone";

  actions = Reply(MakeView(7, {kC, kC, kB, kB}, {11, 12, 3, 4}));
  const auto pulls = All<SendPush>(actions);
  ASSERT_EQ(pulls.size(), 1u) << "B's slices are as they were";
  EXPECT_EQ(pulls[0].server, kC);
  EXPECT_EQ(pulls[0].request->disposition, Disposition::kPull);
  EXPECT_THAT(pulls[0].request->slices, ElementsAre(SliceRef{SliceId(0), Incarnation(11), 0},
                                                    SliceRef{SliceId(1), Incarnation(12), 0}));
  const auto next = All<Compute>(Answer(pulls[0], 5)).at(0);
  EXPECT_EQ(next.batch, compute.batch + 1) << "what A's slices lack comes back by their ledgers";
  const auto push = All<SendPush>(worker_.OnComputed(now_, next.token, {Disposition::kGradient, 7}));
  ASSERT_EQ(push.size(), 2u);
  EXPECT_EQ(push[0].request->slices[0].version, 30u);
  EXPECT_EQ(push[1].request->slices[0].version, 5u);
}

TEST_F(WorkerTest, ASliceThatMovesDuringTheComputationDoesWithoutTheGradient) {
  const Compute compute = Started();
  EXPECT_THAT(Reply(MakeView(6, {kC, kC, kB, kB}, {11, 12, 3, 4})).size(), 1u)
      << "A is disconnected, no more";
  auto actions = worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7});
  ASSERT_EQ(All<SendPush>(actions).size(), 1u);
  EXPECT_EQ(All<SendPush>(actions)[0].server, kB);
  actions = AnswerAll(actions);
  EXPECT_EQ(All<SendPush>(actions).at(0).server, kC);
  EXPECT_EQ(All<SendPush>(actions).at(0).request->disposition, Disposition::kPull);
}

// ---- slices that move to another server

class MovingSliceTest : public WorkerTest {
 protected:
  // Run 0 is pushed to A (slices 0 and 1) and B (2 and 3).
  void Push() {
    const Compute compute = Started();
    pushes_ = All<SendPush>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
    ASSERT_EQ(pushes_.size(), 2u);
    worker_.MakeHeartbeat({});
  }
  // A has taken the run for slice 0 only.
  WorkerActions TakeOne(SliceOutcome outcome) {
    PushReply reply = Ok(*pushes_[0].request);
    reply.slices[1] = {SliceId(1), outcome, false, Incarnation(2), 0};
    return worker_.OnPushReply(now_, kA, reply);
  }
  // The only action is to push the run for slice 1 there; when that is answered, the next batch begins.
  void ExpectRepeated(const WorkerActions& actions, NodeId server) {
    const auto again = All<SendPush>(actions);
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(again[0].server, server);
    const PushRequest& was = *pushes_[0].request;
    const PushRequest& is = *again[0].request;
    EXPECT_EQ(is.disposition, Disposition::kGradient);
    EXPECT_EQ(is.cut, was.cut);
    EXPECT_EQ(is.run, was.run);
    EXPECT_EQ(is.events, was.events);
    EXPECT_EQ(is.want_values, was.want_values);
    EXPECT_THAT(is.slices, ElementsAre(was.slices[1]));
    const auto next = All<Compute>(Answer(again[0]));
    ASSERT_EQ(next.size(), 1u);
    EXPECT_EQ(next[0].batch, 1u);
  }

  std::vector<SendPush> pushes_;
};

TEST_F(MovingSliceTest, IsPushedAgainWhereANewerViewPlacesIt) {
  Push();
  TakeOne(SliceOutcome::kNotHere);
  EXPECT_TRUE(worker_.HeartbeatUrgent());
  EXPECT_THAT(Answer(pushes_[1]), IsEmpty()) << "not at once: a server that says so would be asked in a loop";
  EXPECT_THAT(Reply({}), IsEmpty()) << "no newer view";
  ExpectRepeated(Reply(MakeView(6, {kA, kC, kB, kB})), kC);
}

TEST_F(MovingSliceTest, IsLookedForAgainWithoutANewerView) {
  Push();
  TakeOne(SliceOutcome::kNotHere);
  Answer(pushes_[1]);
  EXPECT_EQ(worker_.next_timer(), now_ + milliseconds(500));
  now_ = worker_.next_timer();
  ExpectRepeated(worker_.OnTimer(now_), kA);
}

TEST_F(MovingSliceTest, IsPushedAgainAtOnceIfItsServerSaysThatItMay) {
  Push();
  EXPECT_THAT(TakeOne(SliceOutcome::kMoving), IsEmpty()) << "B has not answered";
  ExpectRepeated(Answer(pushes_[1]), kA);
}

TEST_F(MovingSliceTest, IsPushedAgainAtOnceIfTheViewHasItElsewhereAlready) {
  Push();
  Answer(pushes_[1]);
  EXPECT_THAT(Reply(MakeView(6, {kA, kC, kB, kB})), IsEmpty()) << "A answers for both";
  ExpectRepeated(TakeOne(SliceOutcome::kNotHere), kC);
}

TEST_F(MovingSliceTest, TakesTheRunFromTheConnectionToAServerThatHasNoSliceLeft) {
  Push();
  Answer(pushes_[1]);
  const auto actions = Reply(MakeView(6, {kC, kC, kB, kB}));
  EXPECT_EQ(All<Disconnect>(actions).size(), 1u);
  const auto again = All<SendPush>(actions);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].server, kC);
  EXPECT_EQ(again[0].request->slices, pushes_[0].request->slices);
  EXPECT_EQ(All<Compute>(Answer(again[0])).size(), 1u);
  EXPECT_THAT(Answer(pushes_[0]), IsEmpty()) << "nobody waits for it";
}

TEST_F(MovingSliceTest, ThatIsRestoredDoesWithoutTheRun) {
  Push();
  TakeOne(SliceOutcome::kNotHere);
  Answer(pushes_[1]);
  const auto pulls = All<SendPush>(Reply(MakeView(6, {kA, kC, kB, kB}, {1, 12, 3, 4})));
  ASSERT_EQ(pulls.size(), 1u);
  EXPECT_EQ(pulls[0].request->disposition, Disposition::kPull);
  EXPECT_EQ(All<Compute>(Answer(pulls[0])).size(), 1u);
}

TEST_F(MovingSliceTest, IsGivenUpWithItsLease) {
  Push();
  TakeOne(SliceOutcome::kNotHere);
  Answer(pushes_[1]);
  EXPECT_THAT(All<SendPush>(Reply(MakeView(6, {kA, kC, kB, kB}), {}, {1})), IsEmpty());
  EXPECT_EQ(worker_.next_timer(), Time::max());
}

TEST_F(MovingSliceTest, IsNotWaitedForByAWorkerThatLeaves) {
  Push();
  TakeOne(SliceOutcome::kNotHere);
  Answer(pushes_[1]);
  worker_.Leave(now_);
  EXPECT_TRUE(worker_.MakeHeartbeat({}).leaving);
}

TEST_F(WorkerTest, NotHereMakesItPullAgainBeforeItTrains) {
  const auto pulls = All<SendPush>(Reply(MakeView(5), {MakeLease(1)}));
  PushReply reply = Ok(*pulls.at(0).request);
  reply.slices[1] = {SliceId(1), SliceOutcome::kNotHere, false, Incarnation(2), 0};
  worker_.OnPushReply(now_, kA, reply);
  Answer(pulls[1]);
  EXPECT_THAT(worker_.OnSplitReady(now_, 1), IsEmpty()) << "not at once";
  now_ = worker_.next_timer();
  const auto again = All<SendPush>(worker_.OnTimer(now_));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_THAT(again[0].request->slices, ElementsAre(SliceRef{SliceId(1), Incarnation(2), 0}));
  EXPECT_EQ(All<Compute>(Answer(again[0])).size(), 1u);
}

TEST_F(WorkerTest, AnEvictedReplyHoldsItUntilTheCoordinatorSpeaks) {
  const Compute compute = Started();
  const auto pushes = All<SendPush>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
  PushReply reply;
  reply.sequence = pushes[0].request->sequence;
  reply.evicted = true;
  worker_.OnPushReply(now_, kA, reply);
  EXPECT_TRUE(worker_.HeartbeatUrgent());
  EXPECT_THAT(All<Compute>(Answer(pushes[1])), IsEmpty());
  WorkerHeartbeatReply evicted;
  evicted.evicted = true;
  const auto actions = worker_.OnHeartbeatReply(now_, evicted);
  EXPECT_TRUE(All<StopRole>(actions).at(0).evicted);
  EXPECT_EQ(All<DropSplit>(actions).size(), 1u);
  EXPECT_EQ(worker_.next_timer(), Time::max());
  EXPECT_THAT(worker_.OnSplitReady(now_, 1), IsEmpty());
}

TEST_F(WorkerTest, RevokedLeasesAreDroppedEvenInTheMiddle) {
  const Compute compute = Started();
  auto actions = Reply({}, {}, {1});
  EXPECT_EQ(All<DropSplit>(actions).at(0).lease, 1u);
  EXPECT_TRUE(worker_.idle());
  EXPECT_THAT(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}), IsEmpty());
  EXPECT_THAT(worker_.MakeHeartbeat({}).released, IsEmpty()) << "it was not ours any more";
  AnswerAll(Reply({}, {MakeLease(2)}));
  EXPECT_EQ(All<Compute>(worker_.OnSplitReady(now_, 2)).size(), 1u);
}

TEST_F(WorkerTest, OutdatedAnswersAreDropped) {
  const Compute compute = Started();
  EXPECT_THAT(worker_.OnComputed(now_, compute.token + 1, {Disposition::kGradient, 7}), IsEmpty());
  const auto pushes = All<SendPush>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
  EXPECT_THAT(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}), IsEmpty());
  EXPECT_THAT(worker_.OnPushFailed(now_, kA, 12345, {}), IsEmpty());
  EXPECT_THAT(worker_.OnPushReply(now_, kC, Ok(*pushes[0].request)), IsEmpty());
  EXPECT_THAT(worker_.OnSplitReady(now_, 777), IsEmpty());
}

TEST_F(WorkerTest, ASplitThatCannotBeReadIsGivenBack) {
  AnswerAll(Reply(MakeView(5), {MakeLease(1)}));
  worker_.OnSplitFailed(now_, 1);
  EXPECT_TRUE(worker_.idle());
  EXPECT_THAT(worker_.MakeHeartbeat({}).released, ElementsAre(1));
}

TEST_F(WorkerTest, LeavesAfterTheBatchUnderWay) {
  const Compute compute = Started();
  EXPECT_THAT(worker_.Leave(now_), IsEmpty());
  EXPECT_FALSE(worker_.MakeHeartbeat({}).leaving);
  const auto actions = AnswerAll(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
  EXPECT_THAT(All<Compute>(actions), IsEmpty());
  EXPECT_TRUE(worker_.HeartbeatUrgent());
  const auto heartbeat = worker_.MakeHeartbeat({});
  EXPECT_TRUE(heartbeat.leaving);
  EXPECT_THAT(heartbeat.released, ElementsAre(1));
  EXPECT_EQ(heartbeat.leases_wanted, 0u);
  WorkerHeartbeatReply bye;
  bye.stop = true;
  EXPECT_FALSE(All<StopRole>(worker_.OnHeartbeatReply(now_, bye)).at(0).evicted);
}

TEST_F(WorkerTest, LeavesWhenItIsToldToAndGivesUpWhatItHasNotBegun) {
  const Compute compute = Started();
  Reply({}, {MakeLease(2)});
  WorkerHeartbeatReply drain;
  drain.drain = true;
  drain.leases = {MakeLease(3)};
  EXPECT_THAT(All<PrepareSplit>(worker_.OnHeartbeatReply(now_, drain)), IsEmpty());
  EXPECT_EQ(worker_.MakeHeartbeat({}).leases_wanted, 0u);
  EXPECT_FALSE(worker_.MakeHeartbeat({}).leaving) << "the batch under way still counts";
  const auto pushes = All<SendPush>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
  ASSERT_EQ(pushes.size(), 2u);
  for (const SendPush& push : pushes) Answer(push);
  const auto heartbeat = worker_.MakeHeartbeat({});
  EXPECT_TRUE(heartbeat.leaving);
  EXPECT_THAT(heartbeat.held, IsEmpty());
  EXPECT_THAT(heartbeat.released, ElementsAre(1)) << "others are leased what servers do not have of it";
  WorkerHeartbeatReply evicted;
  evicted.evicted = true;
  EXPECT_FALSE(All<StopRole>(worker_.OnHeartbeatReply(now_, evicted)).at(0).evicted)
      << "it does not join again";
}

TEST_F(WorkerTest, ForgetsTheValuesThatItHadWhileItStoodBy) {
  WorkerConfig config = MakeConfig();
  config.always_pull = true;
  Worker standby(config);
  standby.OnJoined(kSelf);
  const auto take = [&](uint64_t generation, Member::State state, std::vector<Lease> leases) {
    WorkerHeartbeatReply reply;
    View view = MakeView(generation);
    view.members.back().state = state;
    reply.view = view;
    reply.leases = std::move(leases);
    return standby.OnHeartbeatReply(now_, reply);
  };
  const auto answer = [&](const WorkerActions& actions) {
    for (const SendPush& push : All<SendPush>(actions))
      standby.OnPushReply(now_, push.server, Ok(*push.request));
  };
  const auto first = take(5, Member::State::kStandby, {});
  EXPECT_EQ(All<SendPush>(first).size(), 2u) << "it has connections to both servers";
  answer(first);
  EXPECT_TRUE(standby.stands_by());
  EXPECT_TRUE(standby.has_values());
  EXPECT_EQ(All<SendPush>(take(6, Member::State::kStandby, {})).size(), 0u);
  const auto active = take(7, Member::State::kActive, {MakeLease(1)});
  EXPECT_FALSE(standby.stands_by());
  EXPECT_EQ(All<SendPush>(active).size(), 2u) << "values are pulled anew";
  answer(active);
  EXPECT_EQ(All<Compute>(standby.OnSplitReady(now_, 1)).size(), 1u);
}

TEST_F(WorkerTest, LeavesAlthoughAServerIsOutOfReach) {
  const Compute compute = Started();
  worker_.Leave(now_);
  const auto pushes = All<SendPush>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
  ASSERT_EQ(pushes.size(), 2u);
  Answer(pushes[0]);
  EXPECT_FALSE(worker_.MakeHeartbeat({}).leaving);
  worker_.OnPushFailed(now_, pushes[1].server, pushes[1].request->sequence, Status(Code::kUnavailable, "no"));
  now_ = worker_.next_timer();
  worker_.OnTimer(now_);
  for (int i = 0; i < 2 && !worker_.MakeHeartbeat({}).leaving; ++i) {
    ASSERT_NE(worker_.next_timer(), Time::max());
    now_ = worker_.next_timer();
    worker_.OnTimer(now_);
  }
  const auto heartbeat = worker_.MakeHeartbeat({});
  EXPECT_TRUE(heartbeat.leaving);
  EXPECT_THAT(heartbeat.released, ElementsAre(1));
}

TEST_F(WorkerTest, WaitsForAViewInWhichAllSlicesAreLive) {
  EXPECT_THAT(Reply(MakeView(5, {kA, kA, NodeId(), kB})), IsEmpty());
  EXPECT_EQ(worker_.next_timer(), Time::max());
  EXPECT_EQ(All<SendPush>(Reply(MakeView(6))).size(), 2u);
  EXPECT_THAT(Reply(MakeView(5, {kB, kB, kB, kB})), IsEmpty()) << "an older view";
}

// No server reply can break the worker.
TEST_F(WorkerTest, SurvivesRepliesThatDoNotFit) {
  const auto pulls = All<SendPush>(Reply(MakeView(5), {MakeLease(1)}));
  worker_.OnSplitReady(now_, 1);
  PushReply reply = Ok(*pulls[0].request);
  reply.slices.clear();
  worker_.OnPushReply(now_, kA, reply);
  reply = Ok(*pulls[1].request);
  reply.slices.insert(reply.slices.begin(), {SliceId(4000), SliceOutcome::kApplied, true, Incarnation(1), 1});
  reply.slices.push_back({SliceId(3), SliceOutcome::kPulled, true, Incarnation(99), 1});
  EXPECT_THAT(All<Compute>(worker_.OnPushReply(now_, kB, reply)), IsEmpty());
  now_ = worker_.next_timer();
  EXPECT_EQ(All<Compute>(AnswerAll(worker_.OnTimer(now_))).size(), 1u) << "asked again, answered well";
}

TEST_F(WorkerTest, ALeaseThatIsNoneGoesBack) {
  Lease lease = MakeLease(3);
  lease.cut.end = 0;
  EXPECT_THAT(All<PrepareSplit>(Reply(MakeView(5), {lease})), IsEmpty());
  EXPECT_THAT(worker_.MakeHeartbeat({}).released, ElementsAre(3));
}

// Any sequence of views, leases and replies: no crash, and one request per server at a time.
TEST_F(WorkerTest, SurvivesAnyMessages) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    Worker worker(MakeConfig());
    worker.OnJoined(kSelf);
    std::map<NodeId, PushRequest> asked;
    std::vector<uint64_t> leases;
    std::vector<Compute> computing;
    uint64_t generation = 1;
    for (int round = 0; round < 300; ++round) {
      now_ += milliseconds(rng.Below(200));
      WorkerActions actions;
      const uint64_t what = rng.Below(8);
      if (what == 0) {
        WorkerHeartbeatReply reply;
        worker.MakeHeartbeat({});
        if (rng.Chance(0.5)) {
          const auto some = [&] { return NodeId(rng.Below(4)); };
          View view = MakeView(++generation, {some(), some(), some(), some()},
                               {1 + rng.Below(2), 1 + rng.Below(2), 3, 4});
          if (rng.Chance(0.1)) view.slices.resize(rng.Below(7));
          if (rng.Chance(0.1)) view.members.clear();
          reply.view = std::move(view);
        }
        for (uint64_t i = rng.Below(3); i > 0; --i) {
          Lease lease = MakeLease(1 + rng.Below(50), 1 + static_cast<uint32_t>(rng.Below(4)));
          if (rng.Chance(0.1)) lease.missing = RunSet(static_cast<uint32_t>(rng.Below(6)));
          leases.push_back(lease.id);
          reply.leases.push_back(lease);
        }
        if (rng.Chance(0.2)) reply.revoked = {1 + rng.Below(50)};
        reply.evicted = rng.Chance(0.002);
        actions = worker.OnHeartbeatReply(now_, reply);
      } else if (what == 1 && !leases.empty()) {
        const uint64_t lease = leases[rng.Below(leases.size())];
        actions = rng.Chance(0.9) ? worker.OnSplitReady(now_, lease) : worker.OnSplitFailed(now_, lease);
      } else if (what <= 3 && !computing.empty()) {
        const auto outcome =
            BatchOutcome{static_cast<Disposition>(1 + rng.Below(3)), static_cast<uint32_t>(rng.Below(9))};
        actions = worker.OnComputed(now_, computing.back().token, outcome);
        computing.pop_back();
      } else if (what <= 6 && !asked.empty()) {
        const auto [server, request] =
            *std::next(asked.begin(), static_cast<std::ptrdiff_t>(rng.Below(asked.size())));
        PushReply reply = Ok(request);
        for (SliceReply& slice : reply.slices) {
          if (rng.Chance(0.1)) slice.outcome = static_cast<SliceOutcome>(rng.Below(5));
          if (rng.Chance(0.1)) slice.slice = SliceId(static_cast<uint32_t>(rng.Below(9)));
          if (rng.Chance(0.1)) slice.values = false;
        }
        if (rng.Chance(0.1)) reply.slices.clear();
        asked.erase(server);
        actions = rng.Chance(0.9) ? worker.OnPushReply(now_, server, reply)
                                  : worker.OnPushFailed(now_, server, request.sequence, {});
      } else {
        actions = worker.OnTimer(now_);
      }
      for (const WorkerAction& action : actions) {
        if (const auto* gone = std::get_if<Disconnect>(&action)) asked.erase(gone->server);
        if (const auto* compute = std::get_if<Compute>(&action)) {
          EXPECT_TRUE(computing.empty());
          EXPECT_NE(worker.FindLease(compute->lease), nullptr);
          computing.push_back(*compute);
        }
        if (const auto* push = std::get_if<SendPush>(&action)) {
          EXPECT_TRUE(asked.emplace(push->server, *push->request).second) << "one request a server at a time";
          EXPECT_FALSE(push->request->slices.empty());
        }
      }
    }
  }
}

}  // namespace
}  // namespace leat::protocol
