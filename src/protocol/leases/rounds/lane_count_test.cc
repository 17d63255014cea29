#include "protocol/leases/rounds/rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace leat::protocol {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using RateScale = StrategyConfig::RateScale;

StrategyConfig Auto(uint32_t lanes, uint32_t backup = 0, RateScale scale = RateScale::kNone) {
  return {
      .kind = StrategyKind::kSync, .lanes = lanes, .auto_lanes = true, .rate_scale = scale, .backup = backup};
}

TEST(LaneCountTest, FollowsWorkersThatHaveBeenThereForThreeSeconds) {
  LaneCount lanes(Auto(4));
  Time now = seconds(100);
  lanes.Observe(now, 2, 0);
  EXPECT_EQ(lanes.Next(now, 0), (LanesSet{0, 4})) << "as the job was created";
  lanes.Set({0, 4});
  EXPECT_EQ(lanes.Next(now, 10), std::nullopt);
  now += LaneCount::kStable - milliseconds(1);
  lanes.Observe(now, 2, 5);
  EXPECT_EQ(lanes.Next(now, 10), std::nullopt);
  now += milliseconds(1);
  EXPECT_EQ(lanes.Next(now, 10), (LanesSet{10, 2}));
  lanes.Set({10, 2});
  EXPECT_EQ(lanes.Next(now, 20), std::nullopt) << "as many as there are";
  EXPECT_EQ(lanes.At(9), 4u);
  EXPECT_EQ(lanes.At(10), 2u);
  EXPECT_DOUBLE_EQ(lanes.Pace(now, 30), 10) << "30 steps in three seconds";
}

TEST(LaneCountTest, AWorkerThatIsReplacedInTimeChangesNothing) {
  LaneCount lanes(Auto(4));
  lanes.Set({0, 4});
  Time now = seconds(100);
  for (int i = 0; i < 5; ++i) {
    lanes.Observe(now, 4, 0);
    EXPECT_EQ(lanes.Next(now, 10), std::nullopt);
    now += seconds(20);
    lanes.Observe(now, 3, 0);
    now += LaneCount::kStable - milliseconds(1);
    EXPECT_EQ(lanes.Next(now, 10), std::nullopt);
  }
  now += milliseconds(1);
  EXPECT_EQ(lanes.Next(now, 10), (LanesSet{10, 3})) << "it is not";
  lanes.Observe(now, 0, 0);
  now += seconds(60);
  EXPECT_EQ(lanes.Next(now, 10), std::nullopt) << "without workers there are no steps";
}

TEST(LaneCountTest, BackupsAreSomeOfTheWorkers) {
  for (const auto& [workers, expected] :
       std::vector<std::pair<uint32_t, uint32_t>>{{6, 4}, {3, 1}, {2, 1}, {1, 1}}) {
    LaneCount lanes(Auto(7, 2));
    lanes.Set({0, 7});
    lanes.Observe(Time(0), workers, 0);
    EXPECT_EQ(lanes.Next(seconds(3), 1), (LanesSet{1, expected})) << workers;
  }
}

TEST(LaneCountTest, LaterRecordsReplaceThoseFromTheirStepOn) {
  LaneCount lanes(Auto(1));
  lanes.Set({0, 4});
  lanes.Set({100, 3});
  lanes.Set({200, 2});
  lanes.Set({150, 5});
  EXPECT_EQ(lanes.At(149), 3u);
  EXPECT_EQ(lanes.At(150), 5u);
  EXPECT_EQ(lanes.At(1000), 5u);
  lanes.DropBefore(120);
  EXPECT_EQ(lanes.At(120), 3u) << "steps from there on are still known";
  EXPECT_EQ(lanes.At(150), 5u);
}

TEST(LaneCountTest, TheLearningRateMayBeScaledWithTheLanes) {
  for (const auto& [scale, rate] : std::vector<std::pair<RateScale, float>>{
           {RateScale::kNone, 1}, {RateScale::kLinear, 4}, {RateScale::kSqrt, 2}}) {
    LaneCount lanes(Auto(2, 0, scale));
    EXPECT_EQ(lanes.RateAt(0), 1) << "of as many as the job was created with";
    lanes.Set({10, 8});
    EXPECT_EQ(lanes.RateAt(9), 1);
    EXPECT_EQ(lanes.RateAt(10), rate);
  }
}

TEST(LaneCountTest, FixedLanesStay) {
  LaneCount lanes({.kind = StrategyKind::kSync, .lanes = 4});
  lanes.Observe(Time(0), 2, 0);
  EXPECT_EQ(lanes.Next(seconds(100), 0), std::nullopt);
  EXPECT_EQ(lanes.At(5), 4u);
}

TEST(LaneCountTest, TheJournalKeepsTheRecordsOfItsRounds) {
  const auto kept = [](std::vector<JournalRecord> records) {
    DropUnusedLanes(&records);
    std::vector<uint32_t> lanes;
    for (const JournalRecord& record : records) {
      if (const auto* set = std::get_if<LanesSet>(&record)) lanes.push_back(set->lanes);
    }
    return lanes;
  };
  const LanesSet a{0, 1}, b{100, 2}, c{50, 3}, d{80, 4};
  const RoundMade round{.first_step = 60, .needed = 1, .lanes = {}}, later{.first_step = 90};
  EXPECT_THAT(kept({a, IdsReserved{}}), ElementsAre(1));
  EXPECT_THAT(kept({a, b, c}), ElementsAre(3)) << "the last one is for the next round";
  EXPECT_THAT(kept({a, c, round, d, later}), ElementsAre(3, 4));
  EXPECT_THAT(kept({a, c, d, later}), ElementsAre(4));
  EXPECT_THAT(kept({a, b, c, round}), ElementsAre(2, 3)) << "of later steps, and replaced";
}

}  // namespace
}  // namespace leat::protocol
