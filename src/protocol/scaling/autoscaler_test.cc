#include "protocol/scaling/autoscaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "protocol/scaling/testing.h"

namespace leat::protocol {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

JobModel Job(std::function<double(uint32_t)> throughput, uint32_t least = 1, uint32_t most = 6) {
  return JobModel(
      {.throughput = std::move(throughput), .autoscaler = {.least = least, .most = most}, .workers = least});
}

TEST(Autoscaler, FollowsALoadThatDoublesAndHalves) {
  JobModel job = Job(Linear(1900));
  job.Run(minutes(2), 2400);
  EXPECT_EQ(job.workers(), 2u) << job.reason();
  EXPECT_LT(job.oldest(), seconds(2));
  job.Run(seconds(15), 4800);
  EXPECT_GE(job.workers(), 3u) << job.reason();
  job.Run(minutes(1), 4800);
  EXPECT_LT(job.oldest(), seconds(2)) << "back at its level";
  EXPECT_LE(job.workers(), 4u);
  job.Run(seconds(15), 2400);
  EXPECT_EQ(job.workers(), 2u) << job.reason();
  job.Run(minutes(10), 2400);
  EXPECT_EQ(job.workers(), 2u);
  EXPECT_LE(job.changes().size(), 4u) << "no flapping";
}

TEST(Autoscaler, TriesOneWorkerUntilItsGainIsKnown) {
  JobModel job = Job(Linear(1000), 2, 20);
  job.Run(minutes(1), 1500);  // without lag, nothing is measured
  ASSERT_EQ(job.workers(), 2u);
  job.Run(minutes(2), 9500);
  ASSERT_GE(job.changes().size(), 2u);
  EXPECT_EQ(job.changes()[0].to, 3u);
  EXPECT_THAT(job.changes()[0].reason, HasSubstr("one more is tried"));
  EXPECT_GE(job.changes()[1].at - job.changes()[0].at, seconds(10)) << "the gain is measured over 10 s";
  EXPECT_EQ(job.changes()[1].to, 6u) << "no more than twice as many";
  EXPECT_THAT(job.changes()[1].reason, HasSubstr("one more adds "));
  EXPECT_GE(job.workers(), 10u);
}

TEST(Autoscaler, GivesUpWorkersThatDoNotHelpForTenMinutes) {
  JobModel job = Job(Saturating(1000, 3000));
  job.Run(minutes(2), 4500);
  EXPECT_EQ(job.workers(), 3u) << job.reason();
  ASSERT_FALSE(job.changes().empty());
  const auto up = job.changes().back();
  EXPECT_EQ(up.to, 3u);
  EXPECT_THAT(up.reason, HasSubstr("from 4 to 3 workers: 2 workers more added "));
  EXPECT_THAT(job.reason(), HasSubstr("more than 3 workers did not help"));
  const size_t changes = job.changes().size();
  job.Run(up.at + minutes(10) - seconds(1) - job.now(), 4500);
  EXPECT_EQ(job.changes().size(), changes) << job.reason();
  job.Run(seconds(30), 4500);
  ASSERT_EQ(job.changes().size(), changes + 2) << "tried once more";
  EXPECT_EQ(job.changes()[changes].to, 4u);
  EXPECT_EQ(job.changes()[changes + 1].to, 3u);
}

TEST(Autoscaler, MeasuresASmallGainForLonger) {
  // The third worker adds 0.3 times as much as the others.
  JobModel job =
      Job([](uint32_t workers) { return 1000.0 * std::min(workers, 2u) + 300.0 * (workers > 2); }, 2);
  job.Run(minutes(1), 1500);
  job.Run(minutes(2), 4000);
  ASSERT_GE(job.changes().size(), 2u);
  EXPECT_EQ(job.changes()[0].to, 3u);
  EXPECT_GT(job.changes()[1].to, 3u) << job.changes()[1].reason;
  EXPECT_GE(job.changes()[1].at - job.changes()[0].at, seconds(30));
}

TEST(Autoscaler, GivesUpAUselessWorkerThatComesAfterTheLag) {
  JobModel job({.throughput = Saturating(1000, 2000),
                .autoscaler = {.least = 2, .most = 3},
                .workers = 2,
                .start = seconds(20)});
  job.Run(seconds(30), 500);
  while (job.wanted() == 2 && job.now() < minutes(2)) job.Run(milliseconds(250), 2600);
  ASSERT_EQ(job.wanted(), 3u) << job.reason();
  job.Run(seconds(19), 500);
  EXPECT_LT(job.oldest(), seconds(2));
  ASSERT_EQ(job.workers(), 2u);
  job.Run(seconds(40), 2600);
  EXPECT_EQ(job.workers(), 2u) << job.reason();
  EXPECT_THAT(job.changes().back().reason, HasSubstr("1 worker more added "));
}

TEST(Autoscaler, TriesAgainWhenTheBottleneckIsAnother) {
  JobModel job = Job(Saturating(1000, 3000));
  job.Run(minutes(2), 6000);
  ASSERT_EQ(job.workers(), 3u);
  const size_t changes = job.changes().size();
  job.throughput() = Saturating(1150, 3450);  // 15 % more
  job.Run(minutes(2), 6000);
  EXPECT_EQ(job.changes().size(), changes) << job.reason();
  job.throughput() = Saturating(1250, 5000);
  job.Run(minutes(1), 6000);
  EXPECT_EQ(job.workers(), 4u) << job.reason();
  // Another server is another bottleneck at once.
  job.Run(minutes(1), 6000);
  ASSERT_THAT(job.reason(), HasSubstr("did not help"));
  job.throughput() = Linear(1250);
  job.servers = 3;
  job.Run(seconds(30), 6500);
  EXPECT_GE(job.workers(), 5u) << job.reason();
}

TEST(Autoscaler, GivesUpWhatIsNotNeededWithoutAMeasurement) {
  JobModel job({.throughput = Linear(1000), .autoscaler = {.least = 1, .most = 8}, .workers = 6});
  job.Run(minutes(12), 1700);
  // The autoscaler removes workers singly, until the job falls behind.
  EXPECT_EQ(job.workers(), 2u) << job.reason();
  EXPECT_EQ(job.changes().back().from, 1u);
  const size_t changes = job.changes().size();
  job.Run(minutes(30), 1700);
  EXPECT_EQ(job.changes().size(), changes) << "it is known now that one is not enough";
}

TEST(Autoscaler, KeepsItsCoolDown) {
  ModelOptions options{.throughput = Linear(1000),
                       .autoscaler = {.least = 1, .most = 9, .cool_down = seconds(45)}};
  JobModel job(std::move(options));
  job.Run(minutes(10), 5500);
  job.Run(minutes(10), 1500);
  ASSERT_GE(job.changes().size(), 3u);
  for (size_t i = 1; i < job.changes().size(); ++i)
    EXPECT_GE(job.changes()[i].at - job.changes()[i - 1].at, seconds(45)) << job.changes()[i].reason;
}

TEST(Autoscaler, DecidesNothingWhileTheJobDoesNotTrain) {
  JobModel job = Job(Linear(1000));
  job.Run(minutes(1), 800);
  job.training = false;
  job.Run(minutes(5), 800);
  EXPECT_TRUE(job.changes().empty());
  EXPECT_THAT(job.reason(), HasSubstr("does not train"));
  job.training = true;
  job.Run(seconds(5), 800);
  EXPECT_TRUE(job.changes().empty()) << job.reason();
  job.Run(minutes(3), 800);
  EXPECT_GT(job.changes().size(), 0u) << "what has come meanwhile is worked off";
}

TEST(Autoscaler, WaitsForWorkersThatDoNotCome) {
  JobModel job = Job(Linear(1000));
  job.obeyed = false;
  job.Run(minutes(5), 3500);
  ASSERT_EQ(job.changes().size(), 1u);
  EXPECT_EQ(job.wanted(), 2u);
  EXPECT_THAT(job.reason(), HasSubstr("1 of 2 are there"));
}

TEST(Autoscaler, IsContentWithTheMost) {
  JobModel job = Job(Linear(1000), 2, 3);
  job.Run(minutes(5), 5000);
  EXPECT_EQ(job.workers(), 3u);
  EXPECT_THAT(job.reason(), HasSubstr("the most workers"));
}

TEST(Autoscaler, TakesTheWorkersOverThatComeBackToANewCoordinator) {
  Autoscaler autoscaler({.least = 2, .most = 8});
  Load load{.training = true, .servers = 1};
  for (const uint32_t workers : {0u, 3u, 4u, 6u}) {
    load.workers = workers;
    EXPECT_EQ(autoscaler.OnLoad(seconds(workers / 2), load).workers, 0u) << "not known yet";
  }
  EXPECT_EQ(autoscaler.OnLoad(seconds(6), load).workers, 6u);
  EXPECT_EQ(autoscaler.decision().reason, "6 workers: the job begins with 6 workers");
  autoscaler.SetRange(1, 4);
  EXPECT_EQ(autoscaler.decision().workers, 4u);
}

TEST(Autoscaler, SurvivesCountsThatFall) {
  Autoscaler autoscaler({.least = 1, .most = 4});
  Load load{.training = true, .arrived = 1'000'000, .trained = 900'000, .lag = 100'000, .workers = 1};
  for (int i = 0; i < 200; ++i) {
    load.trained = i % 2 == 0 ? 900'000 : 100;  // a server was restored
    load.oldest = seconds(1);
    autoscaler.OnLoad(std::chrono::milliseconds(250) * i, load);
  }
  EXPECT_EQ(autoscaler.decision().workers, 1u) << autoscaler.decision().reason;
}

TEST(WorkerGains, KnowAGainOnceTwoSizesAreMeasured) {
  WorkerGains gains;
  EXPECT_EQ(gains.Gain(4), std::nullopt);
  gains.Record(seconds(1), 2, 2000, false);
  gains.Record(seconds(2), 4, 3400, false);
  EXPECT_EQ(gains.Gain(4), std::nullopt) << "too soon after the last change";
  gains.Record(seconds(2), 4, 3500, true);
  EXPECT_EQ(gains.Gain(2), std::nullopt);
  EXPECT_EQ(gains.Gain(3), std::nullopt);
  EXPECT_EQ(gains.Gain(4), 750);
  gains.Record(seconds(3), 5, 3400, true);
  EXPECT_EQ(gains.Gain(5), std::nullopt) << "it has added nothing";
  EXPECT_TRUE(gains.Knows(5, seconds(3)));
  EXPECT_FALSE(gains.Knows(4, seconds(3)));
  gains.ForgetAbove(4);
  EXPECT_FALSE(gains.Knows(5, seconds(0)));
  EXPECT_EQ(gains.Gain(4), 750);
}

TEST(WorkerGains, BoundOtherSizesFromBelow) {
  WorkerGains gains;
  EXPECT_EQ(gains.AtLeast(2, 8, 1600), 400) << "a quarter of the workers";
  gains.Record(seconds(1), 2, 2000, true);
  gains.Record(seconds(1), 6, 4000, false);
  EXPECT_EQ(gains.AtLeast(2, 8, 1600), 2000);
  EXPECT_EQ(gains.AtLeast(1, 8, 1600), 1000);
  EXPECT_EQ(gains.AtLeast(4, 8, 1600), 3000) << "what 8 train now says less";
  EXPECT_EQ(gains.AtLeast(7, 8, 1600), 4000) << "not less than 6";
  EXPECT_EQ(gains.AtLeast(7, 8, 5000), 4500);
  EXPECT_EQ(gains.AtLeast(5, 5, 3900), 3900);
}

TEST(LoadWindow, MeasuresRates) {
  LoadWindow window;
  EXPECT_FALSE(window.Recent());
  for (int i = 0; i <= 40; ++i) {
    EXPECT_TRUE(window.Add(std::chrono::milliseconds(500) * i, static_cast<uint64_t>(100 * i),
                           static_cast<uint64_t>(50 * i)));
  }
  const auto recent = window.Recent();
  ASSERT_TRUE(recent);
  EXPECT_DOUBLE_EQ(recent->arrival, 200);
  EXPECT_DOUBLE_EQ(recent->throughput, 100);
  EXPECT_FALSE(window.Since(seconds(18))) << "less than three seconds";
  ASSERT_TRUE(window.Since(seconds(17)));
  EXPECT_DOUBLE_EQ(window.PeakArrival(seconds(10)), 200);
  EXPECT_FALSE(window.Add(seconds(21), 4100, 10)) << "a count has fallen";
  EXPECT_FALSE(window.Recent());
}

TEST(LoadWindow, TakesMoreTimeForTrainingThatMovesRarely) {
  LoadWindow window;
  // 128 events every four seconds.
  for (int i = 0; i <= 200; ++i)
    window.Add(std::chrono::milliseconds(250) * i, static_cast<uint64_t>(8 * i),
               static_cast<uint64_t>(i / 16 * 128));
  const auto recent = window.Recent();
  ASSERT_TRUE(recent);
  EXPECT_NEAR(recent->throughput, 32, 4.5);
  EXPECT_DOUBLE_EQ(recent->arrival, 32);
}

}  // namespace
}  // namespace leat::protocol
