#include "base/metrics/share.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace leat::metrics {
namespace {

Distribution Category(std::vector<double> bins) {
  Distribution d;
  for (const double bin : bins) d.weight += bin;
  d.bins = std::move(bins);
  return d;
}

Distribution Number(double weight, double mean, double variance) {
  return {.weight = weight, .mean = mean, .squares = weight * variance, .bins = {}};
}

TEST(Skew, OfCategoriesIsTheTotalVariationDistance) {
  EXPECT_DOUBLE_EQ(Skew(Category({9, 1}), Category({50, 50})), 0.4);
  EXPECT_DOUBLE_EQ(Skew(Category({1, 9}), Category({500, 500})), 0.4);
  EXPECT_DOUBLE_EQ(Skew(Category({1, 2, 3}), Category({10, 20, 30})), 0);
  EXPECT_DOUBLE_EQ(Skew(Category({4, 0, 0, 0}), Category({1, 1, 1, 1})), 0.75);
  EXPECT_DOUBLE_EQ(Skew(Category({4, 0}), Category({0, 4})), 1) << "the largest that there is";
  EXPECT_TRUE(std::isnan(Skew(Category({0, 0}), Category({0, 4}))));
  EXPECT_TRUE(std::isnan(Skew(Category({1, 0}), Category({0, 0}))));
}

TEST(Skew, OfANumberIsInStandardDeviationsOfTheWhole) {
  EXPECT_DOUBLE_EQ(Skew(Number(10, 5, 1), Number(20, 2, 9)), 1);
  EXPECT_DOUBLE_EQ(Skew(Number(10, -1, 1), Number(20, 2, 9)), 1) << "in either direction";
  EXPECT_DOUBLE_EQ(Skew(Number(10, 2, 1), Number(20, 2, 9)), 0);
  EXPECT_TRUE(std::isnan(Skew(Number(0, 0, 0), Number(20, 2, 9))));
  // Constants, with and without the rounding of sums.
  EXPECT_EQ(Skew(Number(10, 0, 0), Number(20, 0, 0)), 0);
  EXPECT_EQ(Skew(Number(10, 0.1, 1e-34), Number(20, 0.1 + 1e-16, 1e-33)), 0);
}

TEST(EffectiveSplits, AreThoseOfBothSides) {
  // 40 splits of 10 events in a share, and 40 in the rest.
  const SplitSums share{.events = 400, .squares = 4000};
  EXPECT_DOUBLE_EQ(EffectiveSplits(share, {.events = 800, .squares = 8000}), 80)
      << "half of the whole is the share itself, so that it is half as far from it";
  // A whole that is much larger is known.
  EXPECT_NEAR(EffectiveSplits(share, {.events = 4e6, .squares = 4e7}), 40, 0.01);
  // Unequal splits count less.
  EXPECT_NEAR(EffectiveSplits({.events = 400, .squares = 16'000}, {.events = 4e6, .squares = 4e7}), 10, 0.01);
  EXPECT_EQ(EffectiveSplits(share, share), 0) << "there is no other share";
  EXPECT_EQ(EffectiveSplits({}, share), 0);
  EXPECT_EQ(EffectiveSplits({}, {}), 0);
}

TEST(SkewLimit, IsTheFormula) {
  EXPECT_DOUBLE_EQ(SkewLimit(Category({50, 50}), 100, 0.01),
                   0.5 * 2 * std::sqrt(0.25 / 100) + std::sqrt(std::log(100.0) / 200));
  EXPECT_DOUBLE_EQ(SkewLimit(Number(10, 3, 7), 100, 0.01), std::sqrt(2 * std::log(200.0) / 100));
  EXPECT_TRUE(std::isinf(SkewLimit(Category({50, 50}), 0, 0.01)));
  EXPECT_TRUE(std::isinf(SkewLimit(Category({0, 0}), 10, 0.01)));
}

// Shares of random splits, whose events are all alike: the worst case.
TEST(SkewLimit, IsRarelyExceededByChance) {
  const std::vector<double> p{0.5, 0.3, 0.15, 0.05};
  const Distribution whole = Category(p);
  Rng rng(1);
  for (const int n : {10, 50, 250}) {
    const double limit = SkewLimit(whole, n, 0.01);
    double sum = 0;
    int above = 0;
    constexpr int kRounds = 5000;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<double> bins(p.size());
      for (int i = 0; i < n; ++i) {
        double u = rng.Uniform();
        size_t category = 0;
        while (category + 1 < p.size() && u >= p[category]) u -= p[category++];
        ++bins[category];
      }
      const double skew = Skew(Category(bins), whole);
      sum += skew;
      above += skew > limit;
    }
    EXPECT_LE(above, kRounds / 100) << n;
    double expected = 0;
    for (const double x : p) expected += std::sqrt(x * (1 - x) / n) / 2;
    EXPECT_LE(sum / kRounds, expected) << n;
    EXPECT_GE(sum / kRounds, expected / 2) << "the bound is not far from it: " << n;
  }
}

TEST(SkewLimit, OfANumberIsRarelyExceededByChance) {
  Rng rng(2);
  const double limit = SkewLimit(Number(1, 0, 1), 100, 0.01);
  int above = 0;
  for (int round = 0; round < 5000; ++round) {
    double sum = 0;
    for (int i = 0; i < 100; ++i) sum += rng.Uniform() < 0.5 ? -1 : 1;
    above += Skew(Number(100, sum / 100, 1), Number(1, 0, 1)) > limit;
  }
  EXPECT_LE(above, 50);
}

}  // namespace
}  // namespace leat::metrics
