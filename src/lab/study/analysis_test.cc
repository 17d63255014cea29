#include "lab/study/analysis.h"

#include <gtest/gtest.h>

#include <vector>

namespace leat::study {
namespace {

std::vector<SeriesPoint> Speeds(const std::vector<std::pair<uint32_t, double>>& points) {
  std::vector<SeriesPoint> series;
  for (const auto& [workers, speed] : points) series.push_back({.workers = workers, .events_per_s = speed});
  return series;
}

TEST(SweetSpot, IsTheLastPointWhoseWorkersAddEnough) {
  const auto spot = FindSweetSpot(Speeds({{1, 100}, {2, 195}, {4, 370}, {8, 450}, {16, 455}}), 0.5, false);
  ASSERT_TRUE(spot);
  EXPECT_EQ(spot->index, 2u);
  EXPECT_FALSE(spot->at_end);
  EXPECT_NEAR(spot->marginal, 0.2, 1e-9);
}

TEST(SweetSpot, AShareOfNothingIsReachedByEveryPointThatIsFaster) {
  const auto spot = FindSweetSpot(Speeds({{1, 100}, {2, 195}, {4, 370}, {8, 450}, {16, 440}}), 0, false);
  EXPECT_EQ(spot->index, 3u);
}

TEST(SweetSpot, LiesBeyondADip) {
  const auto spot = FindSweetSpot(Speeds({{2, 200}, {4, 270}, {8, 550}, {16, 1100}, {32, 1150}}), 0.5, false);
  EXPECT_EQ(spot->index, 3u);
  EXPECT_NEAR(spot->marginal, 50.0 / 16 / 100, 1e-9);
}

TEST(SweetSpot, MayNotBeReached) {
  const auto spot = FindSweetSpot(Speeds({{2, 200}, {4, 390}}), 0.5, false);
  EXPECT_EQ(spot->index, 1u);
  EXPECT_TRUE(spot->at_end);
}

TEST(SweetSpot, WithATargetTimeCounts) {
  std::vector<SeriesPoint> series = Speeds({{1, 100}, {2, 200}, {4, 400}});
  series[0].target_s = 100;
  series[1].target_s = 55;
  EXPECT_EQ(FindSweetSpot(series, 0.5, true)->index, 1u);  // four workers do not reach it
  series[0].target_s.reset();
  EXPECT_EQ(FindSweetSpot(series, 0.5, true)->index, 1u);
  series[1].target_s.reset();
  EXPECT_FALSE(FindSweetSpot(series, 0.5, true));
}

TEST(LimitingFactor, IsTheResourceThatIsFull) {
  SeriesPoint point{.workers = 8, .events_per_s = 1000};
  point.usage = {.compute = 0.95, .wait = 0.05};
  EXPECT_EQ(LimitingFactor(point, nullptr), Factor::kModel);
  point.usage = {.server_link = 0.95, .server_cpu = 0.3, .compute = 0.4, .wait = 0.6};
  EXPECT_EQ(LimitingFactor(point, nullptr), Factor::kServerLink);
  point.usage = {.server_link = 0.2, .server_cpu = 0.97, .compute = 0.4, .wait = 0.6};
  EXPECT_EQ(LimitingFactor(point, nullptr), Factor::kServerCpu);
  point.usage = {.source_link = 0.98, .compute = 0.5, .input_wait = 0.5};
  EXPECT_EQ(LimitingFactor(point, nullptr), Factor::kInput);
  point.usage = {.member_link = 0.9, .compute = 0.4, .wait = 0.6, .stepped = true};
  EXPECT_EQ(LimitingFactor(point, nullptr), Factor::kWorkerLink);
  point.usage = {.compute = 0.4, .wait = 0.6, .slowest = 3, .stepped = true};
  EXPECT_EQ(LimitingFactor(point, nullptr), Factor::kSlowestWorker);
  // A slow worker delays nobody else without steps.
  point.usage.stepped = false;
  EXPECT_EQ(LimitingFactor(point, nullptr), Factor::kBatch);
  // Messages queue at the busiest resource, though it is not full.
  point.usage = {.server_link = 0.6, .compute = 0.4, .wait = 0.6};
  EXPECT_EQ(LimitingFactor(point, nullptr), Factor::kServerLink);
}

TEST(LimitingFactor, IsLearningIfTheTargetNeedsMoreEvents) {
  SeriesPoint before{.workers = 4, .events_per_s = 400, .target_s = 10, .target_events = 4000};
  SeriesPoint point{.workers = 8, .events_per_s = 780, .target_s = 10, .target_events = 7800};
  point.usage = {.compute = 0.95, .staleness = 7};
  EXPECT_EQ(LimitingFactor(point, &before), Factor::kStaleness);
  point.usage.stepped = true;
  EXPECT_EQ(LimitingFactor(point, &before), Factor::kBatch);
  // The speed is the larger loss.
  point.events_per_s = 420;
  point.target_events = 4800;
  point.usage = {.server_link = 0.97, .compute = 0.4, .wait = 0.6};
  EXPECT_EQ(LimitingFactor(point, &before), Factor::kServerLink);
}

}  // namespace
}  // namespace leat::study
