// Runs and steps: the requests and their order in strategies whose push is more than one gradient.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/worker/testing.h"

namespace leat::protocol {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

StrategyConfig SyncWorkers(uint32_t lanes, uint32_t backup = 0) {
  StrategyConfig strategy;
  strategy.kind = StrategyKind::kSync;
  strategy.lanes = lanes;
  strategy.backup = backup;
  return strategy;
}
StrategyConfig SspWorkers(uint32_t lanes, int32_t staleness) {
  StrategyConfig strategy = SyncWorkers(lanes);
  strategy.kind = StrategyKind::kSsp;
  strategy.staleness = staleness;
  return strategy;
}
StrategyConfig Averaging(uint32_t lanes, uint32_t period) {
  StrategyConfig strategy = SyncWorkers(lanes);
  strategy.kind = StrategyKind::kAveraging;
  strategy.period = period;
  return strategy;
}
StrategyConfig Downpour(uint32_t n_push, uint32_t n_fetch) {
  StrategyConfig strategy;
  strategy.kind = StrategyKind::kDownpour;
  strategy.n_push = n_push;
  strategy.n_fetch = n_fetch;
  return strategy;
}

class StepsTest : public WorkerTest {
 protected:
  explicit StepsTest(const StrategyConfig& strategy = SyncWorkers(2))
      : WorkerTest(strategy), strategy_(strategy) {}

  Lease Part(uint64_t id, uint64_t first_step, uint32_t lane, uint32_t runs = 2,
             std::vector<uint32_t> missing = {}) const {
    Lease lease = MakeLease(id, runs, std::move(missing));
    lease.cut.run = strategy_.run();
    lease.cut.end = lease.cut.begin.offset + uint64_t{runs} * 10 * strategy_.run();
    lease.first_step = first_step;
    lease.lane = lane;
    lease.width = strategy_.total_lanes();
    lease.needed = strategy_.lanes;
    lease.assigned = RunSet(runs, true);
    return lease;
  }
  // Up to the first computation of the leases, all of whose splits are ready.
  Compute StartOf(const std::vector<Lease>& leases, uint64_t version = 0) {
    AnswerAll(Reply(MakeView(5), leases), version);
    WorkerActions actions;
    for (const Lease& lease : leases) {
      auto more = worker_.OnSplitReady(now_, lease.id);
      actions.insert(actions.end(), more.begin(), more.end());
    }
    return All<Compute>(actions).at(0);
  }
  std::vector<SendPush> Pushes(const Compute& compute, uint32_t events = 7,
                               Disposition disposition = Disposition::kGradient) {
    return All<SendPush>(worker_.OnComputed(now_, compute.token, {disposition, events}));
  }
  // The reply of a server that keeps the run for later.
  WorkerActions Hold(const SendPush& push, uint64_t version, SliceOutcome outcome = SliceOutcome::kHeld,
                     std::vector<uint64_t> counted = {}) {
    PushReply reply = Ok(*push.request, version);
    reply.counted = std::move(counted);
    for (SliceReply& slice : reply.slices) {
      slice.outcome = outcome;
      slice.values = false;
    }
    return worker_.OnPushReply(now_, push.server, reply);
  }

  StrategyConfig strategy_;
};

TEST_F(StepsTest, GoesFromStepToStepWithTheValuesOfEach) {
  const auto pulls = All<SendPush>(Reply(MakeView(5), {Part(1, 3, 1)}));
  ASSERT_EQ(pulls.size(), 2u);
  for (const SendPush& pull : pulls) {
    EXPECT_EQ(pull.request->disposition, Disposition::kPull);
    EXPECT_EQ(pull.request->version_wanted, 3u);
    EXPECT_TRUE(pull.request->exact);
  }
  worker_.OnSplitReady(now_, 1);
  Answer(pulls[0], 3);
  Compute compute = All<Compute>(Answer(pulls[1], 3)).at(0);
  for (uint32_t run = 0; run < 2; ++run) {
    EXPECT_EQ(compute.batch, run);
    EXPECT_EQ(compute.version, 3u + run);
    const auto pushes = Pushes(compute);
    ASSERT_EQ(pushes.size(), 2u);
    for (const SendPush& push : pushes) {
      EXPECT_EQ(push.request->step_lane, (StepLane{3 + run, 1, 2, 2}));
      EXPECT_EQ(push.request->version_wanted, 4 + run);
      EXPECT_TRUE(push.request->exact && push.request->want_values);
      EXPECT_EQ(push.request->slices[0].version, 3 + run);
    }
    EXPECT_THAT(worker_.MakeHeartbeat({}).released, IsEmpty());
    Answer(pushes[0], 4 + run);
    const auto actions = Answer(pushes[1], 4 + run);
    if (run == 0) compute = All<Compute>(actions).at(0);
  }
  EXPECT_THAT(worker_.MakeHeartbeat({}).released, ElementsAre(1)) << "all slices have completed step 4";
}

// It has moved or been restored since, which happens when all slices have completed the step.
TEST_F(StepsTest, AStepWhoseValuesASliceHasNoMoreIsOver) {
  const auto pulls = All<SendPush>(Reply(MakeView(5), {Part(1, 3, 1)}));
  worker_.OnSplitReady(now_, 1);
  Answer(pulls.at(0), 3);
  const auto next = All<SendPush>(Answer(pulls.at(1), 4));
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].server, kA);
  EXPECT_EQ(next[0].request->version_wanted, 4u);
  EXPECT_EQ(All<Compute>(Answer(next[0], 4)).at(0).batch, 1u) << "of step 4";
}

TEST_F(StepsTest, OnlyTheLastLaneOfAStepAsksForTheNext) {
  const Compute first = StartOf({Part(1, 0, 1), Part(2, 0, 0)});
  EXPECT_EQ(first.lease, 1u) << "the other was not ready yet";
  const auto pushes = Pushes(first);
  EXPECT_FALSE(pushes[0].request->want_values);
  EXPECT_EQ(pushes[0].request->version_wanted, 0u);
  Hold(pushes[0], 0);
  const Compute second = All<Compute>(Hold(pushes[1], 0)).at(0);
  EXPECT_EQ(second.lease, 2u);
  EXPECT_EQ(second.batch, 0u);
  const auto more = Pushes(second);
  EXPECT_TRUE(more[0].request->want_values);
  Answer(more[0], 1);
  EXPECT_EQ(All<Compute>(Answer(more[1], 1)).at(0).lease, 2u) << "of those that are ready the lowest lane";
}

TEST_F(StepsTest, RunsThatAreNotMissingAreStepsOfOthers) {
  const Compute compute = StartOf({Part(1, 0, 0, 5, {1, 3})}, 1);
  EXPECT_EQ(compute.batch, 1u);
  const auto pushes = Pushes(compute);
  EXPECT_EQ(pushes[0].request->step_lane->step, 1u);
  Answer(pushes[0], 2);
  const auto pulls = All<SendPush>(Answer(pushes[1], 2));
  ASSERT_EQ(pulls.size(), 2u);
  EXPECT_EQ(pulls[0].request->version_wanted, 3u);
  Answer(pulls[0], 3);
  const auto last = Pushes(All<Compute>(Answer(pulls[1], 3)).at(0));
  EXPECT_EQ(last[0].request->step_lane->step, 3u);
  Answer(last[0], 4);
  Answer(last[1], 4);
  EXPECT_THAT(worker_.MakeHeartbeat({}).released, ElementsAre(1)) << "step 4 is not its own";
}

TEST_F(StepsTest, ASparseAssignmentHasStepsInARow) {
  Lease lease = Part(1, 10, 0, 6, {2, 5});
  lease.assigned = lease.missing;
  const auto pushes = Pushes(StartOf({lease}, 10));
  EXPECT_EQ(pushes[0].request->run, 2u);
  EXPECT_EQ(pushes[0].request->step_lane->step, 10u);
  Answer(pushes[0], 11);
  const auto next = Pushes(All<Compute>(Answer(pushes[1], 11)).at(0));
  EXPECT_EQ(next[0].request->run, 5u);
  EXPECT_EQ(next[0].request->step_lane->step, 11u);
}

TEST_F(StepsTest, AnAnswerWithoutValuesIsFollowedByAPull) {
  const auto pushes = Pushes(StartOf({Part(1, 0, 0)}));
  Hold(pushes[0], 0);
  const auto pulls = All<SendPush>(Hold(pushes[1], 0));
  ASSERT_EQ(pulls.size(), 2u);
  EXPECT_EQ(pulls[0].request->disposition, Disposition::kPull);
  EXPECT_EQ(pulls[0].request->version_wanted, 1u);
  // A pull that returned nothing newer is not repeated at once.
  Hold(pulls[0], 0, SliceOutcome::kPulled);
  EXPECT_THAT(All<SendPush>(Hold(pulls[1], 0, SliceOutcome::kPulled)), IsEmpty());
  now_ = worker_.next_timer();
  EXPECT_EQ(All<SendPush>(worker_.OnTimer(now_)).size(), 2u);
}

TEST_F(StepsTest, ValuesOfAnotherVersionAreNotAskedForInALoop) {
  worker_.OnSplitReady(now_, 1);
  const auto pulls = All<SendPush>(Reply(MakeView(5), {Part(1, 4, 0)}));
  worker_.OnSplitReady(now_, 1);
  Answer(pulls[0], 4);
  EXPECT_THAT(Answer(pulls[1], 3), IsEmpty());
  now_ = worker_.next_timer();
  const auto again = All<SendPush>(worker_.OnTimer(now_));
  ASSERT_EQ(again.size(), 1u) << "the others fit";
  EXPECT_EQ(All<Compute>(Answer(again[0], 4)).size(), 1u);
}

// ---- other workers' lanes

TEST_F(StepsTest, TakesOverALaneOfTheStepThatItWaitsFor) {
  const auto pushes = Pushes(StartOf({Part(1, 0, 0)}));
  Answer(pushes[0], 1);  // B waits for lane 1, whose worker is gone
  EXPECT_EQ(All<SendPush>(Reply({}, {Part(2, 0, 1, 2)})).size(), 0u);
  EXPECT_THAT(worker_.OnSplitReady(now_, 2), IsEmpty()) << "the push may just be on its way";
  now_ = worker_.next_timer();
  const auto actions = worker_.OnTimer(now_);
  ASSERT_EQ(All<Disconnect>(actions).size(), 1u);
  EXPECT_EQ(All<Disconnect>(actions)[0].server, kB);
  const auto pulls = All<SendPush>(actions);
  ASSERT_EQ(pulls.size(), 2u) << "A's are those of the next step, and of B's nothing is known";
  EXPECT_EQ(pulls[0].request->version_wanted, 0u);
  EXPECT_TRUE(pulls[0].request->exact);
  Answer(pulls[0], 0);
  // Its own lane may not have arrived: it is repeated.
  Compute compute = All<Compute>(Answer(pulls[1], 0)).at(0);
  EXPECT_EQ(compute.lease, 1u);
  auto again = Pushes(compute);
  EXPECT_FALSE(again[0].request->want_values);
  Hold(again[0], 1, SliceOutcome::kDuplicate);
  compute = All<Compute>(Hold(again[1], 0)).at(0);
  EXPECT_EQ(compute.lease, 2u);
  EXPECT_EQ(compute.batch, 0u);
  again = Pushes(compute);
  EXPECT_TRUE(again[0].request->want_values);
  Answer(again[0], 1);
  EXPECT_EQ(All<Compute>(Answer(again[1], 1)).at(0).batch, 1u);
}

TEST_F(StepsTest, TakesOverWhatIsBehindWhatItPulls) {
  const auto pulls = All<SendPush>(Reply(MakeView(5), {Part(1, 7, 0)}));
  worker_.OnSplitReady(now_, 1);
  Reply({}, {Part(2, 5, 0)});
  worker_.OnSplitReady(now_, 2);
  now_ = worker_.next_timer();
  const auto lower = All<SendPush>(worker_.OnTimer(now_));
  ASSERT_EQ(lower.size(), 2u);
  EXPECT_EQ(lower[0].request->version_wanted, 5u);
  EXPECT_THAT(Answer(pulls[0], 7), IsEmpty()) << "of the first attempt";
  Answer(lower[0], 5);
  EXPECT_EQ(All<Compute>(Answer(lower[1], 5)).at(0).lease, 2u);
}

TEST_F(StepsTest, StepsThatAllHaveBehindThemArePassedBy) {
  const auto pulls = All<SendPush>(Reply(MakeView(5), {Part(1, 0, 0, 6)}));
  worker_.OnSplitReady(now_, 1);
  Answer(pulls[0], 3);  // version 0 no longer exists
  const auto next = All<SendPush>(Answer(pulls[1], 4));
  ASSERT_EQ(next.size(), 1u) << "step 2 may lack something on A; B, at 4, has all of it";
  EXPECT_EQ(next[0].request->version_wanted, 3u);
  EXPECT_TRUE(next[0].request->exact);
  EXPECT_EQ(All<Compute>(Answer(next[0], 3)).at(0).batch, 3u);
}

TEST_F(StepsTest, GoesBackWithAllSlices) {
  const auto pushes = Pushes(StartOf({Part(1, 4, 0), Part(2, 6, 0)}, 4));
  const auto actions = Reply(MakeView(6, {kC, kC, kB, kB}, {11, 12, 13, 14}), {Part(3, 2, 0)});
  EXPECT_EQ(All<DropSplit>(actions).size(), 2u);
  EXPECT_THAT(worker_.MakeHeartbeat({}).held, ElementsAre(3));
  const auto pulls = All<SendPush>(actions);
  ASSERT_EQ(pulls.size(), 2u);
  EXPECT_EQ(pulls[0].request->version_wanted, 2u);
  EXPECT_THAT(Answer(pushes[0], 5), IsEmpty()) << "of the former incarnation";
  worker_.OnSplitReady(now_, 3);
  Answer(pulls[0], 2);
  EXPECT_EQ(All<Compute>(Answer(pulls[1], 2)).at(0).lease, 3u);
}

TEST_F(StepsTest, AServerThatIsLostForAWhileGetsTheRunOnceMore) {
  const auto pushes = Pushes(StartOf({Part(1, 0, 0)}));
  Reply(MakeView(6, {kA, kA, NodeId(), NodeId()}));
  Answer(pushes[0], 1);
  const auto pulls = All<SendPush>(Reply(MakeView(7)));
  ASSERT_EQ(pulls.size(), 2u) << "some of B's values may have arrived, of one step or the next";
  Answer(pulls[0], 0);
  const Compute again = All<Compute>(Answer(pulls[1], 0)).at(0);
  EXPECT_EQ(again.batch, 0u);
  EXPECT_EQ(Pushes(again).size(), 2u);
}

TEST_F(StepsTest, ARefusedRunIsTriedAgainLater) {
  const auto pushes = Pushes(StartOf({Part(1, 0, 0)}));
  Answer(pushes[0], 1);
  worker_.MakeHeartbeat({});
  EXPECT_THAT(Hold(pushes[1], 0, SliceOutcome::kConflict), IsEmpty());
  EXPECT_TRUE(worker_.HeartbeatUrgent());
  now_ = worker_.next_timer();
  const auto pulls = All<SendPush>(worker_.OnTimer(now_));
  ASSERT_EQ(pulls.size(), 1u);
  EXPECT_EQ(All<Compute>(Answer(pulls[0], 0)).at(0).batch, 0u);
}

TEST_F(StepsTest, ARefusedRunIsTriedAgainLessAndLessOften) {
  Compute compute = StartOf({Part(1, 0, 0)});
  std::vector<Duration> pauses;
  for (int i = 0; i < 8; ++i) {
    for (const SendPush& push : Pushes(compute)) Hold(push, 0, SliceOutcome::kConflict);
    const Time refused = now_;
    WorkerActions actions;
    while (actions.empty()) {
      now_ = worker_.next_timer();
      actions = worker_.OnTimer(now_);
    }
    pauses.push_back(now_ - refused);
    while (All<Compute>(actions).empty()) actions = AnswerAll(actions, 0);
    compute = All<Compute>(actions).at(0);
  }
  for (size_t i = 0; i < pauses.size(); ++i) {
    const Duration least = std::min<Duration>(std::chrono::seconds(2), std::chrono::milliseconds(50 << i));
    EXPECT_GE(pauses[i], least) << i;
    EXPECT_LE(pauses[i], least * 3 / 2) << i;
  }
}

TEST_F(StepsTest, LeavesThoughOthersKeepItWaiting) {
  const auto pushes = Pushes(StartOf({Part(1, 0, 0)}));
  Answer(pushes[0], 1);
  worker_.Leave(now_);
  EXPECT_FALSE(worker_.MakeHeartbeat({}).leaving);
  now_ = worker_.next_timer();
  EXPECT_EQ(All<Disconnect>(worker_.OnTimer(now_)).size(), 1u);
  const auto heartbeat = worker_.MakeHeartbeat({});
  EXPECT_TRUE(heartbeat.leaving);
  EXPECT_THAT(heartbeat.held, IsEmpty());
  EXPECT_THAT(heartbeat.released, IsEmpty()) << "its lanes are others' without another look at the ledgers";
}

TEST_F(StepsTest, PartsThatAreNoneGoBack) {
  std::vector<Lease> none(5, Part(1, 0, 0));
  for (size_t i = 0; i < none.size(); ++i) none[i].id = i + 1;
  none[0].assigned = {};
  none[1].assigned = RunSet(2);
  none[1].assigned.Add(0);  // and two are missing
  none[2].lane = 2;
  none[3].needed = 3;
  none[4].first_step = ~uint64_t{0};
  EXPECT_THAT(All<PrepareSplit>(Reply(MakeView(5), none)), IsEmpty());
  EXPECT_THAT(worker_.MakeHeartbeat({}).released, ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(StepsTest, AsksForRoundsHoweverManyLanesItHas) {
  Reply(MakeView(5), {Part(1, 0, 0), Part(2, 0, 1)});
  EXPECT_EQ(worker_.MakeHeartbeat({}).leases_wanted, 1u);
  Reply({}, {Part(3, 2, 0)});
  EXPECT_EQ(worker_.MakeHeartbeat({}).leases_wanted, 0u);
}

TEST_F(StepsTest, EmptyAndRejectedRunsHaveTheirTurnsToo) {
  auto pushes = Pushes(StartOf({Part(1, 0, 0)}), 0, Disposition::kEmpty);
  EXPECT_EQ(pushes[0].request->disposition, Disposition::kEmpty);
  EXPECT_EQ(pushes[0].request->step_lane->step, 0u);
  Answer(pushes[0], 1);
  pushes = Pushes(All<Compute>(Answer(pushes[1], 1)).at(0), 5, Disposition::kRejected);
  EXPECT_EQ(pushes[0].request->disposition, Disposition::kRejected);
  EXPECT_EQ(pushes[0].request->step_lane->step, 1u);
}

// ---- ssp

class SspTest : public StepsTest {
 protected:
  SspTest() : StepsTest(SspWorkers(2, 2)) {}
};

TEST_F(SspTest, RunsAheadAndHoldsItsLeaseUntilItIsRecorded) {
  const auto pulls = All<SendPush>(Reply(MakeView(5), {Part(1, 0, 0, 3)}));
  EXPECT_EQ(pulls[0].request->version_wanted, 0u);
  EXPECT_FALSE(pulls[0].request->exact);
  worker_.OnSplitReady(now_, 1);
  Answer(pulls[0], 0);
  auto actions = Answer(pulls[1], 0);
  for (uint32_t step = 0; step < 3; ++step) {  // lane 1 has not begun yet
    const auto pushes = Pushes(All<Compute>(actions).at(0));
    EXPECT_EQ(pushes[0].request->step_lane->step, step);
    EXPECT_EQ(pushes[0].request->version_wanted, step < 2 ? 0 : step - 1);
    EXPECT_TRUE(pushes[0].request->want_values);
    EXPECT_FALSE(pushes[0].request->exact);
    const uint64_t version = step < 2 ? 0 : 1;
    Answer(pushes[0], version);
    actions = Answer(pushes[1], version);
  }
  auto asked = All<SendPush>(actions);
  ASSERT_EQ(asked.size(), 2u) << "how far the slices are";
  EXPECT_FALSE(asked[0].request->want_values);
  EXPECT_EQ(asked[0].request->version_wanted, 0u);
  Hold(asked[0], 3, SliceOutcome::kPulled);
  EXPECT_THAT(Hold(asked[1], 2, SliceOutcome::kPulled), IsEmpty());
  EXPECT_THAT(worker_.MakeHeartbeat({}).released, IsEmpty());
  now_ = worker_.next_timer();
  asked = All<SendPush>(worker_.OnTimer(now_));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].server, kB);
  Hold(asked[0], 3, SliceOutcome::kPulled);
  EXPECT_THAT(worker_.MakeHeartbeat({}).released, ElementsAre(1));
}

TEST_F(SspTest, WaitsForAVersionAsFarBehindAsIsAllowed) {
  const auto pulls = All<SendPush>(Reply(MakeView(5), {Part(1, 9, 0)}));
  EXPECT_EQ(pulls[0].request->version_wanted, 7u);
  worker_.OnSplitReady(now_, 1);
  Answer(pulls[0], 9);
  EXPECT_EQ(All<Compute>(Answer(pulls[1], 7)).at(0).version, 7u);
}

// ---- backup workers

class BackupTest : public StepsTest {
 protected:
  BackupTest() : StepsTest(SyncWorkers(2, 1)) {}
};

TEST_F(BackupTest, OtherServersLearnWhichLanesCount) {
  const auto pushes = Pushes(StartOf({Part(1, 0, 2)}));
  EXPECT_EQ(pushes[0].request->step_lane, (StepLane{0, 2, 3, 2}));
  EXPECT_TRUE(pushes[0].request->want_values) << "A has slice 0: it decides";
  EXPECT_EQ(pushes[0].request->version_wanted, 1u);
  EXPECT_FALSE(pushes[1].request->want_values);
  Hold(pushes[1], 0);
  PushReply decided = Ok(*pushes[0].request, 1);
  decided.counted = {0b101};
  const auto pulls = All<SendPush>(worker_.OnPushReply(now_, kA, decided));
  ASSERT_EQ(pulls.size(), 1u);
  EXPECT_EQ(pulls[0].server, kB);
  EXPECT_THAT(pulls[0].request->counted, ElementsAre(0b101));
  EXPECT_EQ(pulls[0].request->step_lane, (StepLane{0, 2, 3, 2}));
  EXPECT_EQ(pulls[0].request->version_wanted, 1u);
  EXPECT_EQ(All<Compute>(Answer(pulls[0], 1)).at(0).batch, 1u);
}

TEST_F(BackupTest, TheLastLeaseOfARoundInformsOtherServers) {
  const auto pushes = Pushes(StartOf({Part(1, 0, 2, 1)}));
  Hold(pushes[1], 0);
  PushReply decided = Ok(*pushes[0].request, 1);
  decided.counted = {0b101};
  const auto told = All<SendPush>(worker_.OnPushReply(now_, kA, decided));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0].request->counted, ElementsAre(0b101));
  EXPECT_FALSE(told[0].request->want_values);
  Hold(told[0], 1, SliceOutcome::kPulled);
  EXPECT_THAT(worker_.MakeHeartbeat({}).released, ElementsAre(1));
}

TEST_F(BackupTest, AWorkerWithoutALaneInTheNextStepInformsOtherServers) {
  // Steps 1 and 2 have fewer lanes, of workers that had none in step 0 and know nothing about it.
  const auto pushes = Pushes(StartOf({Part(1, 0, 2, 1), Part(2, 3, 2, 2)}));
  Hold(pushes[1], 0);
  const auto pulls = All<SendPush>(Hold(pushes[0], 1, SliceOutcome::kApplied, {0b101}));
  ASSERT_EQ(pulls.size(), 2u);
  EXPECT_EQ(pulls[0].server, kA);
  EXPECT_THAT(pulls[0].request->counted, IsEmpty()) << "A has decided it";
  EXPECT_EQ(pulls[1].request->version_wanted, 3u);
  EXPECT_EQ(pulls[1].request->step_lane, (StepLane{0, 2, 3, 2}));
  EXPECT_THAT(pulls[1].request->counted, ElementsAre(0b101));
  // No result: B has that step by now and is asked for the next one alone.
  Hold(pulls[0], 1, SliceOutcome::kPulled);
  Hold(pulls[1], 1, SliceOutcome::kPulled);
  now_ = worker_.next_timer();
  const auto again = All<SendPush>(worker_.OnTimer(now_));
  ASSERT_EQ(again.size(), 2u);
  EXPECT_FALSE(again[1].request->step_lane.has_value());
  EXPECT_THAT(again[1].request->counted, IsEmpty());
}

TEST_F(BackupTest, ALateWorkerContinuesAtTheCurrentStep) {
  const auto pushes = Pushes(StartOf({Part(1, 0, 2, 8)}));
  Hold(pushes[1], 3, SliceOutcome::kLate);
  PushReply late = Ok(*pushes[0].request, 4);  // nothing is left of version 1
  for (SliceReply& slice : late.slices) slice.outcome = SliceOutcome::kLate;
  const auto asked = All<SendPush>(worker_.OnPushReply(now_, kA, late));
  // Whether lane 2 of step 3 counts, which B may lack. Nobody has pushed it, but that is not known here.
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].server, kA);
  EXPECT_FALSE(asked[0].request->want_values);
  EXPECT_EQ(asked[0].request->step_lane, (StepLane{3, 2, 3, 2}));
  const auto pulls = All<SendPush>(Hold(asked[0], 4, SliceOutcome::kPulled, {0b011}));
  ASSERT_EQ(pulls.size(), 1u);
  EXPECT_EQ(pulls[0].server, kB);
  EXPECT_EQ(pulls[0].request->version_wanted, 4u);
  EXPECT_THAT(pulls[0].request->counted, ElementsAre(0b011));
  const Compute next = All<Compute>(Answer(pulls[0], 4)).at(0);
  EXPECT_EQ(next.batch, 4u) << "runs 0 to 3 are left over";
}

TEST_F(BackupTest, ACountedLaneIsPushedToServersThatLackIt) {
  // Lane 0 was pushed to A, which counts it, before its worker was lost; B waits for it.
  auto actions = Reply(MakeView(5), {Part(1, 0, 0, 2)});
  auto pulls = All<SendPush>(actions);
  worker_.OnSplitReady(now_, 1);
  Answer(pulls[0], 0);  // the version before its newest
  const auto pushes = Pushes(All<Compute>(Answer(pulls[1], 0)).at(0));
  PushReply decided = Ok(*pushes[0].request, 1);
  decided.counted = {0b011};
  for (SliceReply& slice : decided.slices) slice.outcome = SliceOutcome::kDuplicate;
  worker_.OnPushReply(now_, kA, decided);
  pulls = All<SendPush>(Hold(pushes[1], 0));
  ASSERT_EQ(pulls.size(), 1u);
  EXPECT_THAT(pulls[0].request->counted, ElementsAre(0b011));
  EXPECT_EQ(All<Compute>(Answer(pulls[0], 1)).at(0).batch, 1u);
}

class MalformedRequestTest : public BackupTest,
                             public ::testing::WithParamInterface<std::vector<uint64_t>> {};

TEST_P(MalformedRequestTest, MalformedCountedLanesAreNotPassedOn) {
  const auto pushes = Pushes(StartOf({Part(1, 0, 2)}));
  Hold(pushes[1], 0);
  PushReply decided = Ok(*pushes[0].request, 1);
  decided.counted = GetParam();
  const auto pulls = All<SendPush>(worker_.OnPushReply(now_, kA, decided));
  ASSERT_EQ(pulls.size(), 1u);
  EXPECT_THAT(pulls[0].request->counted, IsEmpty());
}
INSTANTIATE_TEST_SUITE_P(Some, MalformedRequestTest,
                         ::testing::Values(std::vector<uint64_t>{0b111}, std::vector<uint64_t>{0b001},
                                           std::vector<uint64_t>{0b1001}, std::vector<uint64_t>{0b011, 0},
                                           std::vector<uint64_t>{}));

// ---- averaging

class AveragingTest : public StepsTest {
 protected:
  AveragingTest() : StepsTest(Averaging(2, 3)) {}
};

TEST_F(AveragingTest, ARunIsOnePush) {
  Compute compute = StartOf({Part(1, 0, 0, 2)});
  for (uint32_t batch = 0; batch < 3; ++batch) {
    EXPECT_EQ(compute.batch, batch);
    EXPECT_EQ(compute.first, batch == 0);
    EXPECT_EQ(compute.last, batch == 2);
    EXPECT_EQ(compute.version, 0u);
    const auto actions = worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 10});
    if (batch < 2) {
      EXPECT_THAT(All<SendPush>(actions), IsEmpty());
      compute = All<Compute>(actions).at(0);
      continue;
    }
    const auto pushes = All<SendPush>(actions);
    ASSERT_EQ(pushes.size(), 2u);
    EXPECT_EQ(pushes[0].request->events, 30u);
    EXPECT_EQ(pushes[0].request->run, 0u);
    EXPECT_EQ(pushes[0].request->step_lane->step, 0u);
    Answer(pushes[0], 1);
    compute = All<Compute>(Answer(pushes[1], 1)).at(0);
  }
  EXPECT_EQ(compute.batch, 3u);
  EXPECT_TRUE(compute.first);
  EXPECT_EQ(compute.version, 1u);
}

TEST_F(AveragingTest, ARejectedBatchEndsItsRun) {
  Compute compute = StartOf({Part(1, 0, 0, 2)});
  compute = All<Compute>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 10})).at(0);
  const auto pushes = Pushes(compute, 10, Disposition::kRejected);
  ASSERT_EQ(pushes.size(), 2u);
  EXPECT_EQ(pushes[0].request->disposition, Disposition::kRejected);
  EXPECT_TRUE(pushes[0].request->want_values);
  Answer(pushes[0], 1);
  EXPECT_EQ(All<Compute>(Answer(pushes[1], 1)).at(0).batch, 3u);
}

TEST_F(AveragingTest, ARunThatIsTakenAwayLeavesValuesThatCountNoMore) {
  const Compute compute = StartOf({Part(1, 0, 0, 2), Part(2, 0, 1, 2)});
  Reply({}, {}, {compute.lease});
  const auto pulls = All<SendPush>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 10}));
  ASSERT_EQ(pulls.size(), 2u);
  EXPECT_EQ(pulls[0].request->disposition, Disposition::kPull);
  Answer(pulls[0], 0);
  const Compute other = All<Compute>(Answer(pulls[1], 0)).at(0);
  EXPECT_NE(other.lease, compute.lease);
  EXPECT_TRUE(other.first);
}

TEST_F(AveragingTest, LeavesInTheMiddleOfARun) {
  const Compute compute = StartOf({Part(1, 0, 0, 2)});
  worker_.Leave(now_);
  EXPECT_THAT(All<SendPush>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 10})),
              IsEmpty());
  EXPECT_TRUE(worker_.MakeHeartbeat({}).leaving);
}

// ---- downpour

class DownpourTest : public WorkerTest {
 protected:
  explicit DownpourTest(const StrategyConfig& strategy = Downpour(2, 3))
      : WorkerTest(strategy), strategy_(strategy) {}
  Lease Split(uint64_t id, uint32_t batches) const {
    Lease lease = MakeLease(id, batches);
    lease.cut.run = strategy_.run();
    lease.missing = RunSet(lease.cut.runs(), true);
    return lease;
  }
  StrategyConfig strategy_;
};

// As text: b for a batch, P for a push with values, p without, f for a fetch.
std::string Story(Worker& worker, Time now, WorkerActions actions, uint64_t version) {
  std::string story;
  std::vector<SendPush> asked;
  for (;;) {
    for (const SendPush& push : All<SendPush>(actions)) {
      if (push.server == kA) {
        const bool pull = push.request->disposition == Disposition::kPull;
        story += pull ? 'f' : push.request->want_values ? 'P' : 'p';
      }
      asked.push_back(push);
    }
    const auto computes = All<Compute>(actions);
    if (!computes.empty()) {
      story += 'b';
      actions = worker.OnComputed(now, computes[0].token, {Disposition::kGradient, 10});
    } else if (!asked.empty()) {
      PushReply reply;
      reply.sequence = asked.back().request->sequence;
      for (const SliceRef& ref : asked.back().request->slices) {
        reply.slices.push_back(
            {ref.slice, SliceOutcome::kApplied, asked.back().request->want_values, ref.incarnation, version});
      }
      const NodeId server = asked.back().server;
      asked.pop_back();
      actions = worker.OnPushReply(now, server, reply);
    } else {
      return story;
    }
  }
}

TEST_F(DownpourTest, PushesAndFetchesAtPeriodsOfTheirOwn) {
  AnswerAll(Reply(MakeView(5), {Split(1, 12)}), 1);
  // Pushed after 2, 4, …; fetched after 3, 6, 9, 12; both after 6 and 12.
  EXPECT_EQ(Story(worker_, now_, worker_.OnSplitReady(now_, 1), 1), "bbpbfbpbbPbbpbfbpbbP");
  EXPECT_THAT(worker_.MakeHeartbeat({}).released, ElementsAre(1));
}

TEST_F(DownpourTest, TheEndOfACutEndsARunAndPeriodsOfFetchingGoOn) {
  AnswerAll(Reply(MakeView(5), {Split(1, 3), Split(2, 3)}), 1);
  auto actions = worker_.OnSplitReady(now_, 1);
  EXPECT_EQ(Story(worker_, now_, std::move(actions), 1), "bbpbP");
  EXPECT_EQ(Story(worker_, now_, worker_.OnSplitReady(now_, 2), 1), "bbpbP");
}

class RareFetchesTest : public DownpourTest {
 protected:
  RareFetchesTest() : DownpourTest(Downpour(1, 4)) {}
};

TEST_F(RareFetchesTest, StalenessIsThatOfTheFetch) {
  AnswerAll(Reply(MakeView(5), {Split(1, 8)}), 10);
  Compute compute = All<Compute>(worker_.OnSplitReady(now_, 1)).at(0);
  for (uint32_t batch = 0; batch < 4; ++batch) {
    EXPECT_EQ(compute.version, 10u);
    const auto pushes = All<SendPush>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
    EXPECT_EQ(pushes[0].request->slices[0].version, 10u);
    EXPECT_EQ(pushes[0].request->want_values, batch == 3);
    for (const SendPush& push : pushes) {
      PushReply reply = Ok(*push.request, 20 + batch);
      for (SliceReply& slice : reply.slices) slice.values = push.request->want_values;
      const auto actions = worker_.OnPushReply(now_, push.server, reply);
      if (!actions.empty()) compute = All<Compute>(actions).at(0);
    }
  }
  EXPECT_EQ(compute.batch, 4u);
  EXPECT_EQ(compute.version, 23u);
}

TEST_F(RareFetchesTest, ARejectedRunTakesLocalStepsBack) {
  AnswerAll(Reply(MakeView(5), {Split(1, 8)}), 1);
  const Compute compute = All<Compute>(worker_.OnSplitReady(now_, 1)).at(0);
  const auto pushes = All<SendPush>(worker_.OnComputed(now_, compute.token, {Disposition::kRejected, 7}));
  EXPECT_TRUE(pushes.at(0).request->want_values);
  EXPECT_EQ(pushes[0].request->disposition, Disposition::kRejected);
}

class LongRunsTest : public DownpourTest {
 protected:
  LongRunsTest() : DownpourTest(Downpour(4, 2)) {}
};

TEST_F(LongRunsTest, ASliceThatMovesInMidRunDoesWithoutIt) {
  AnswerAll(Reply(MakeView(5), {Split(1, 4)}), 1);
  Compute compute = All<Compute>(worker_.OnSplitReady(now_, 1)).at(0);
  compute = All<Compute>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7})).at(0);
  EXPECT_FALSE(compute.first);
  Reply(MakeView(6, {kC, kC, kB, kB}, {11, 12, 3, 4}));
  const auto fetches = worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7});
  ASSERT_EQ(All<SendPush>(fetches).size(), 2u);
  compute = All<Compute>(AnswerAll(fetches, 2)).at(0);
  EXPECT_EQ(compute.batch, 2u);
  EXPECT_FALSE(compute.first) << "the run goes on";
  compute = All<Compute>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7})).at(0);
  EXPECT_TRUE(compute.last);
  const auto pushes = All<SendPush>(worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7}));
  ASSERT_EQ(pushes.size(), 1u) << "C has other incarnations of its slices than at the start of the run";
  EXPECT_EQ(pushes[0].server, kB);
  EXPECT_EQ(pushes[0].request->slices[0].version, 1u) << "of its first batch";
  EXPECT_EQ(pushes[0].request->events, 28u);
}

TEST_F(LongRunsTest, ARunThatIsTakenAwayIsFollowedByAFetch) {
  AnswerAll(Reply(MakeView(5), {Split(1, 4), Split(2, 4)}), 1);
  worker_.OnSplitReady(now_, 1);
  Compute compute{.token = 1};
  worker_.OnSplitReady(now_, 2);
  Reply({}, {}, {1});
  const auto actions = worker_.OnComputed(now_, compute.token, {Disposition::kGradient, 7});
  ASSERT_EQ(All<SendPush>(actions).size(), 2u);
  EXPECT_EQ(All<SendPush>(actions)[0].request->disposition, Disposition::kPull);
  compute = All<Compute>(AnswerAll(actions, 2)).at(0);
  EXPECT_EQ(compute.lease, 2u);
  EXPECT_TRUE(compute.first);
}

TEST_F(StepsTest, ValuesToScoreWithAreThereBeforeAnyLease) {
  WorkerConfig config = MakeConfig(SyncWorkers(2));
  config.always_pull = true;
  Worker worker(config);
  worker.OnJoined(kSelf);
  EXPECT_FALSE(worker.has_values());
  WorkerHeartbeatReply reply;
  reply.view = MakeView(5);
  const auto pulls = All<SendPush>(worker.OnHeartbeatReply(now_, reply));
  ASSERT_EQ(pulls.size(), 2u);
  for (const SendPush& pull : pulls) {
    EXPECT_FALSE(worker.has_values());
    EXPECT_EQ(pull.request->version_wanted, 0u);
    EXPECT_TRUE(worker.OnPushReply(now_, pull.server, Ok(*pull.request)).empty()) << "and it asks once";
  }
  EXPECT_TRUE(worker.has_values());
  EXPECT_FALSE(worker.computing());
}

}  // namespace
}  // namespace leat::protocol
