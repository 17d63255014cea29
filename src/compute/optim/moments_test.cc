#include "compute/optim/moments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/rng.h"

namespace leat::optim {
namespace {

// By two passes in a longer type, which is another formula than that of the code.
Moments TwoPasses(std::span<const double> values) {
  if (values.empty()) return {};
  long double sum = 0, squares = 0;
  for (const double x : values) sum += x;
  const long double mean = sum / static_cast<long double>(values.size());
  for (const double x : values) squares += (x - mean) * (x - mean);
  return {values.size(), static_cast<double>(mean), static_cast<double>(squares)};
}

void ExpectNear(const Moments& found, const Moments& expected, double tolerance) {
  EXPECT_EQ(found.count, expected.count);
  EXPECT_NEAR(found.mean, expected.mean, tolerance * std::abs(expected.mean));
  EXPECT_NEAR(found.m2, expected.m2, tolerance * expected.m2);
}

TEST(Moments, MergedAreThoseOfAllValues) {
  Rng rng(1);
  for (const auto& [level, spread] : {std::pair(0.0, 1.0), {1e6, 3.0}, {-7e-9, 1e-9}, {5.0, 1e12}}) {
    std::vector<double> all;
    Moments merged;
    for (int batch = 0; batch < 200; ++batch) {
      std::vector<double> values(rng.Below(70));
      for (double& x : values) x = level + spread * rng.Normal();
      merged = Merged(merged, TwoPasses(values));
      all.insert(all.end(), values.begin(), values.end());
    }
    ExpectNear(merged, TwoPasses(all), 1e-10);
  }
}

TEST(Moments, OfOneValueAtATimeAsWell) {
  const std::vector<double> values{3, -1, 4, 1.5, 9.25};
  Moments merged;
  for (const double x : values) merged = Merged(merged, {1, x, 0});
  ExpectNear(merged, TwoPasses(values), 1e-14);
}

TEST(Moments, OfNoValueChangeNothing) {
  const Moments some{7, 0.1, 1.0 / 3};
  EXPECT_EQ(Merged(some, {}), some);
  EXPECT_EQ(Merged({}, some), some);
  EXPECT_EQ(Merged({}, {}), Moments());
  // Not even if the mean of nothing is no number.
  EXPECT_EQ(Merged(some, {0, std::nan(""), std::nan("")}), some);
}

TEST(Moments, EqualValuesHaveNoDeviation) {
  Moments merged;
  for (int i = 0; i < 1000; ++i) merged = Merged(merged, {3, 0.1, 0});
  EXPECT_EQ(merged, (Moments{3000, 0.1, 0}));
}

TEST(Moments, CountsAreExactWhereF64IsNot) {
  const uint64_t large = (uint64_t{1} << 53) + 1;
  EXPECT_EQ(Merged({large, 1, 0}, {2, 1, 0}).count, large + 2);
}

// Checks the specified words without using our code.
TEST(Moments, TheWordsAreCountsThenMeansThenDeviations) {
  std::vector<float> words(3 * kMomentWords);
  for (size_t i = 0; i < 3; ++i) {
    PutMoments(words, i, {uint64_t{0x7ff0000100000000} + i, -1.5 - static_cast<double>(i), 0.1});
  }
  std::vector<uint64_t> found(9);
  std::memcpy(found.data(), words.data(), words.size() * sizeof(float));
  EXPECT_THAT(found, ::testing::ElementsAre(0x7ff0000100000000, 0x7ff0000100000001, 0x7ff0000100000002,
                                            std::bit_cast<uint64_t>(-1.5), std::bit_cast<uint64_t>(-2.5),
                                            std::bit_cast<uint64_t>(-3.5), std::bit_cast<uint64_t>(0.1),
                                            std::bit_cast<uint64_t>(0.1), std::bit_cast<uint64_t>(0.1)));
  EXPECT_EQ(GetMoments(words, 1), (Moments{0x7ff0000100000001, -2.5, 0.1}));
}

TEST(Moments, FeaturesAreMergedOneByOne) {
  std::vector<float> words(2 * kMomentWords), more(2 * kMomentWords);
  PutMoments(more, 0, {2, 5, 8});
  MergeMoments(words, more);
  PutMoments(more, 1, {1, -2, 0});
  MergeMoments(words, more);
  EXPECT_EQ(GetMoments(words, 0), (Moments{4, 5, 16}));
  EXPECT_EQ(GetMoments(words, 1), (Moments{1, -2, 0}));
}

TEST(Moments, ScalingIsToMeanZeroAndVarianceOne) {
  // The mean is not an f32, and the deviation is in its last bits.
  const std::vector<double> values{16777216.5, 16777217.5, 16777219.0};
  const Moments moments = TwoPasses(values);
  const Scaling by = ScalingOf(moments);
  const double variance = moments.m2 / 3;
  EXPECT_NEAR(by.factor, 1 / std::sqrt(variance), 1e-6);
  const auto mean = static_cast<double>(by.shift) + static_cast<double>(by.rest);
  EXPECT_NEAR(mean, moments.mean, 1e-6);
  const float x = 16777218;
  EXPECT_NEAR(((x - by.shift) - by.rest) * by.factor, (16777218 - moments.mean) / std::sqrt(variance), 1e-5);
}

TEST(Moments, WithoutADeviationTheFactorIsZero) {
  const double tiny = std::numeric_limits<double>::min();
  for (const Moments& moments : {Moments{},
                                 {1, 5, 0},
                                 {1000, 5, 0},
                                 {10, 0, tiny},
                                 {10, 5, std::nan("")},
                                 {10, 5, -1},
                                 {10, std::nan(""), 1},
                                 {10, 1e300, 1},
                                 {1, 5, 7}}) {
    const Scaling by = ScalingOf(moments);
    EXPECT_EQ(by.factor, 0) << moments.count << " " << moments.mean << " " << moments.m2;
    EXPECT_EQ(by.shift, 0);
    EXPECT_EQ(by.rest, 0);
  }
  EXPECT_GT(ScalingOf({2, 5, 1e-60}).factor, 0);
}

}  // namespace
}  // namespace leat::optim
