#include "compute/optim/norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"

namespace leat::optim {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> NormalValues(size_t n, uint64_t seed) {
  const CounterRng rng(seed);
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<float>(rng.Normal(i));
  return out;
}

// A plain loop with the fixed order of lanes.
double InLanes(const float* x, size_t n) {
  double lanes[kNormLanes] = {};
  for (size_t i = 0; i < n; ++i) lanes[i % kNormLanes] += double{x[i]} * double{x[i]};
  return SumOfLanes(lanes);
}

TEST(Norm, IsTheSumInLanesBitForBit) {
  const auto x = NormalValues(1200, 1);
  for (const size_t n : {0u, 1u, 15u, 16u, 17u, 31u, 33u, 100u, 1000u}) {
    for (const size_t offset : {0u, 1u, 5u, 16u}) {
      EXPECT_EQ(SquaredNorm(x.data() + offset, n), InLanes(x.data() + offset, n)) << n;
    }
  }
}

TEST(Norm, OfTheLargestNumbersIsFinite) {
  const std::vector<float> x(1000, std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(SquaredNorm(x.data(), x.size())));
  const std::vector<float> tiny(4, 1e-30f);
  EXPECT_NEAR(std::sqrt(SquaredNorm(tiny.data(), 4)), 2e-30, 1e-36);
}

TEST(Norm, TellsWhatIsNotFiniteWhereverItIs) {
  for (const float bad : {kInfinity, -kInfinity, kNan}) {
    for (size_t i = 0; i < 40; ++i) {
      auto x = NormalValues(40, 2);
      x[i] = bad;
      EXPECT_FALSE(std::isfinite(SquaredNorm(x.data(), x.size()))) << i;
    }
  }
}

TEST(Norm, ScaleAndClamp) {
  std::vector<float> x = {1, -2, 3, -0.5f, 0};
  Clamp(x.data(), x.size(), 2);
  EXPECT_THAT(x, ::testing::ElementsAre(1, -2, 2, -0.5f, 0));
  Scale(x.data(), x.size(), 0.5f);
  EXPECT_THAT(x, ::testing::ElementsAre(0.5f, -1, 1, -0.25f, 0));
}

TEST(Norm, ClipFactorLeavesWhatIsShortAlone) {
  EXPECT_EQ(ClipFactor(0, 1), 1);
  EXPECT_EQ(ClipFactor(0.99, 1), 1);
  EXPECT_FLOAT_EQ(ClipFactor(4, 1), 0.25f);
  EXPECT_FLOAT_EQ(ClipFactor(1e30, 2), 2e-30f);
}

}  // namespace
}  // namespace leat::optim
