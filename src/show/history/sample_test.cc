#include "show/history/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "show/history/testing.h"

namespace leat::observe {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsNan;

class SamplerTest : public ::testing::Test {
 protected:
  Sample Next(double time_s) { return sampler_.OnReading({time_s, StatusOf(status_)}); }

  json status_ = StatusJson();
  Sampler sampler_;
};

TEST_F(SamplerTest, FiguresAreThoseOfTheStatus) {
  status_["lag"] = 70;
  status_["lag_s"] = 1.5;
  status_["events_per_s_now"] = 40'000.0;
  const Sample sample = Next(1000);
  EXPECT_EQ(sample.time_s, 1000);
  EXPECT_EQ(sample[Series::kLoss], 0.5f);
  EXPECT_EQ(sample[Series::kAccuracy], 0.75f);
  EXPECT_EQ(sample[Series::kAuc], 0.625f);
  EXPECT_EQ(sample[Series::kAucPossible], 0.875f);
  EXPECT_EQ(sample[Series::kLag], 70);
  EXPECT_EQ(sample[Series::kLagS], 1.5f);
  EXPECT_EQ(sample[Series::kEventsPerS], 40'000);
  EXPECT_EQ(sample[Series::kWorkers], 2);
  EXPECT_EQ(sample[Series::kServers], 2);
  EXPECT_THAT(sample[Series::kMae], IsNan()) << "the job has none";
  EXPECT_THAT(sample[Series::kArrivedPerS], IsNan()) << "nothing to compare with";
  ASSERT_EQ(sample.members.size(), 4u);
  EXPECT_THAT(sample.members[0].figures[0], IsNan());
}

TEST_F(SamplerTest, SumsBecomeRatesOfTheLastSeconds) {
  for (int second = 0; second <= 10; ++second) {
    status_["stream_end"] = 1000 * second;
    status_["aggregated_compute_s"] = 1.5 * second;
    status_["dead_letters"] = 2 * second;
    auto& server = status_["members"][0];
    server["bytes_in"] = 1'000'000 * second;
    server["bytes_out"] = 2'000'000 * second;
    server["done"] = 50 * second;
    auto& worker = status_["members"][2];
    worker["done"] = 500 * second;
    worker["compute_s"] = 0.5 * second;
    worker["wait_s"] = 0.25 * second;
    worker["input_wait_s"] = 0.125 * second;
    worker["decode_s"] = 0.0625 * second;
    worker["cpu_s"] = 0.75 * second;
    const Sample sample = Next(100 + second);
    if (second == 0) continue;
    EXPECT_EQ(sample[Series::kArrivedPerS], 1000);
    EXPECT_EQ(sample[Series::kCores], 1.5f);
    EXPECT_EQ(sample[Series::kDeadLettersPerS], 2);
    EXPECT_EQ(sample[Series::kServerBytesPerS], 3e6f) << "of both servers, one of them idle";
    EXPECT_EQ(sample[Series::kCompute], 0.25f) << "the mean of two workers";
    const auto& figures = sample.members[2].figures;
    EXPECT_THAT(figures, ElementsAre(500, 0.5f, 0.25f, 0.125f, 0.0625f, 0.75f));
    EXPECT_EQ(sample.members[0].figures[0], 3e6f);
    EXPECT_EQ(sample.members[0].figures[1], 50);
  }
  // A rate without progress is 0 once a window has passed.
  for (int second = 11; second <= 14; ++second) {
    const float rate = Next(100 + second)[Series::kArrivedPerS];
    EXPECT_NEAR(rate, std::max(13 - second, 0) * 1000 / 3.0, 0.1);
  }
}

TEST_F(SamplerTest, AMemberThatCameMeanwhileHasItsRatesSinceThen) {
  Next(1);
  Next(2);
  // Another process with the same index.
  status_["members"][2] = WorkerJson(9, 0);
  status_["members"][2]["done"] = 100;
  EXPECT_THAT(Next(3).members.back().figures[0], IsNan());
  status_["members"][2]["done"] = 150;
  const Sample sample = Next(4);
  EXPECT_EQ(sample.members.back().index, 0u);
  EXPECT_EQ(sample.members.back().figures[0], 50);
}

TEST_F(SamplerTest, ASumThatBeganAnewHasNoRate) {
  status_["stream_end"] = 1000;
  Next(1);
  status_["stream_end"] = 5;
  EXPECT_THAT(Next(2)[Series::kArrivedPerS], IsNan());
}

TEST_F(SamplerTest, SharesOfTimeAreAtMostOne) {
  Next(1);
  status_["members"][2]["wait_s"] = 30.0;
  EXPECT_EQ(Next(2).members[2].figures[2], 1);
}

TEST_F(SamplerTest, StalenessIsThatOfTheLastUpdates) {
  status_["staleness"] = {100, 0, 50};
  Next(1);
  status_["staleness"] = {100, 0, 60, 0, 10};
  EXPECT_EQ(Next(2)[Series::kStaleness], 3);
}

TEST_F(SamplerTest, MembersThatStandByAreNotMeasured) {
  status_["members"][3]["state"] = "standby";
  const Sample sample = Next(1);
  EXPECT_EQ(sample.members.size(), 3u);
  EXPECT_EQ(sample[Series::kWorkers], 1);
}

TEST(MergeTest, FiguresAreMeansOfWhatIsKnown) {
  Sample a = SampleAt(10, 1, 1), b = SampleAt(12, 4, 2);
  a.span_s = 2;
  b.span_s = 1;
  a[Series::kAuc] = 0.5f;
  const Sample merged = Merge(a, b);
  EXPECT_EQ(merged.time_s, 12);
  EXPECT_EQ(merged.span_s, 3);
  EXPECT_EQ(merged[Series::kLoss], 2);
  EXPECT_EQ(merged[Series::kAuc], 0.5f);
  EXPECT_THAT(merged[Series::kMae], IsNan());
  ASSERT_EQ(merged.members.size(), 2u);
  EXPECT_EQ(merged.members[1].figures[0], 1);
}

TEST(ReadingTest, MembersAreFoundByNode) {
  json status = StatusJson();
  status["members"] = {WorkerJson(9, 0), WorkerJson(3, 1), ServerJson(5, 0)};
  const Reading reading(0, StatusOf(status));
  EXPECT_EQ(reading.Find(3)->name.index, 1u);
  EXPECT_EQ(reading.Find(5)->name.role, "ps");
  EXPECT_EQ(reading.Find(4), nullptr);
  EXPECT_EQ(reading.Count("worker"), 2u);
}

TEST(SeriesTest, EachHasAName) {
  EXPECT_EQ(EnumeratorsOf(Series()).size(), kSeries);
  EXPECT_EQ(fields::NameOf(Series::kEventsPerS), "events_per_s");
  EXPECT_EQ(fields::NameOf(Series::kDeadLettersPerS), "dead_letters_per_s");
  EXPECT_EQ(RatesOf(MemberSample::Role::kWorker).size(), MemberSample::kFigures);
  EXPECT_LE(RatesOf(MemberSample::Role::kServer).size(), MemberSample::kFigures);
}

}  // namespace
}  // namespace leat::observe
