#include "compute/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>
#include <vector>

namespace leat::optim {
namespace {

using ::testing::ElementsAre;
using Type = Schedule::Type;

std::vector<double> Shares(const Schedule& schedule, uint64_t steps) {
  std::vector<double> out;
  for (uint64_t step = 1; step <= steps; ++step) out.push_back(ShareAt(schedule, step));
  return out;
}

TEST(Schedule, ConstantIsTheDefault) {
  EXPECT_THAT(Shares({}, 3), ElementsAre(1, 1, 1));
}

TEST(Schedule, WarmUpRisesToTheWholeRate) {
  EXPECT_THAT(Shares({.warmup = 4}, 6), ElementsAre(0.25, 0.5, 0.75, 1, 1, 1));
}

TEST(Schedule, StepFallsAllAtOnce) {
  EXPECT_THAT(Shares({.type = Type::kStep, .every = 2, .factor = 0.5}, 6),
              ElementsAre(1, 1, 0.5, 0.5, 0.25, 0.25));
  EXPECT_THAT(Shares({.type = Type::kStep, .warmup = 2, .every = 2, .factor = 0.5}, 6),
              ElementsAre(0.5, 1, 1, 1, 0.5, 0.5))
      << "t counts from the end of the warm-up";
}

TEST(Schedule, ExponentialFallsABitEachTime) {
  const auto shares = Shares({.type = Type::kExponential, .every = 2, .factor = 0.25}, 5);
  EXPECT_THAT(shares, ElementsAre(1, 0.5, 0.25, 0.125, 0.0625));
}

TEST(Schedule, LinearEndsAtItsEnd) {
  EXPECT_THAT(Shares({.type = Type::kLinear, .steps = 4, .final = 0.5}, 6),
              ElementsAre(1, 0.875, 0.75, 0.625, 0.5, 0.5));
  EXPECT_THAT(Shares({.type = Type::kLinear, .warmup = 2, .steps = 4}, 6), ElementsAre(0.5, 1, 1, 0.5, 0, 0));
}

TEST(Schedule, CosineIsHalfAWave) {
  const Schedule schedule{.type = Type::kCosine, .warmup = 10, .steps = 110, .final = 0.2};
  EXPECT_EQ(ShareAt(schedule, 10), 1);
  EXPECT_EQ(ShareAt(schedule, 11), 1);
  EXPECT_NEAR(ShareAt(schedule, 61), 0.6, 1e-15);
  EXPECT_NEAR(ShareAt(schedule, 36), 0.2 + 0.8 * (1 + std::cos(std::numbers::pi / 4)) / 2, 1e-15);
  EXPECT_EQ(ShareAt(schedule, 111), 0.2);
  EXPECT_EQ(ShareAt(schedule, uint64_t{1} << 60), 0.2);
  double last = 1;
  for (uint64_t step = 11; step <= 111; ++step) {
    EXPECT_LE(ShareAt(schedule, step), last);
    last = ShareAt(schedule, step);
  }
}

TEST(Schedule, NoFactorIsNoTrouble) {
  EXPECT_THAT(Shares({.type = Type::kStep, .every = 2, .factor = 0}, 4), ElementsAre(1, 1, 0, 0));
  EXPECT_EQ(ShareAt({.type = Type::kExponential, .every = 1, .factor = 0.5}, ~uint64_t{0}), 0);
}

Schedule ReadSchedule(const std::string& yaml) {
  return Schedule::FromConfig(Config::Parse(yaml, "job.yaml"));
}

TEST(Schedule, ReadsEachType) {
  EXPECT_EQ(ReadSchedule("{type: constant}"), Schedule{});
  EXPECT_EQ(ReadSchedule("{type: constant, warmup: 7}"), Schedule{.warmup = 7});
  EXPECT_EQ(ReadSchedule("{type: step, every: 5}"),
            (Schedule{.type = Type::kStep, .every = 5, .factor = 0.1}));
  EXPECT_EQ(ReadSchedule("{type: exponential, every: 5, factor: 0.5, warmup: 1}"),
            (Schedule{.type = Type::kExponential, .warmup = 1, .every = 5, .factor = 0.5}));
  EXPECT_EQ(ReadSchedule("{type: linear, steps: 5}"), (Schedule{.type = Type::kLinear, .steps = 5}));
  EXPECT_EQ(ReadSchedule("{type: cosine, steps: 5, warmup: 4, final: 0.5}"),
            (Schedule{.type = Type::kCosine, .warmup = 4, .steps = 5, .final = 0.5}));
  EXPECT_EQ(fields::NameOf(Type::kCosine), "cosine");
}

TEST(Schedule, RefusesWhatDoesNotBelong) {
  for (const char* yaml :
       {"{warmup: 5}", "{type: cosin, steps: 5}", "{type: constant, steps: 5}", "{type: step}",
        "{type: step, every: 0}", "{type: step, every: 5, factor: 2}", "{type: exponential}",
        "{type: cosine}", "{type: cosine, steps: 0}", "{type: cosine, steps: 5, warmup: 5}",
        "{type: linear, steps: 5, final: -1}", "{type: linear, steps: 5, every: 2}",
        "{type: constant, warmup: -1}", "{type: constant, warmup: 9000000000000000000}"}) {
    try {
      ReadSchedule(yaml);
      ADD_FAILURE() << yaml;
    } catch (const std::invalid_argument& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr("job.yaml:1")) << yaml;
    }
  }
}

}  // namespace
}  // namespace leat::optim
