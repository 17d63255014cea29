#include "show/tensorboard/events.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"

namespace leat::tensorboard {
namespace {

TEST(Distribution, CountsEachNumberInItsBucket) {
  Rng rng(1);
  std::vector<float> numbers = {0, -0.0f, 1, -1, 1e-20f, -1e-20f, 3e38f, -3e38f};
  for (int i = 0; i < 2000; ++i) numbers.push_back(static_cast<float>(rng.Normal() * 0.05));
  Distribution distribution;
  distribution.Add(std::span(numbers).first(1000));
  distribution.Add(std::span(numbers).subspan(1000));
  const Histogram histogram = distribution.ToHistogram();
  EXPECT_EQ(histogram.count, static_cast<double>(numbers.size()));
  EXPECT_EQ(histogram.min, double{-3e38f});
  EXPECT_EQ(histogram.max, double{3e38f});
  ASSERT_EQ(histogram.limits.size(), histogram.counts.size());
  double before = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < histogram.limits.size(); ++i) {
    const double limit = histogram.limits[i];
    double in = 0;
    for (const float x : numbers) in += x >= before && x < limit ? 1 : 0;
    EXPECT_EQ(histogram.counts[i], in) << "up to " << limit;
    EXPECT_FALSE(i > 0 && histogram.counts[i] == 0 && histogram.counts[i - 1] == 0) << "two empty ones";
    before = limit;
  }
  EXPECT_GT(histogram.counts.front(), 0);
  EXPECT_GT(histogram.counts.back(), 0);
}

TEST(Distribution, Sums) {
  Distribution distribution;
  const std::vector<float> numbers = {1, -2, 4};
  distribution.Add(numbers);
  const Histogram histogram = distribution.ToHistogram();
  EXPECT_EQ(histogram.sum, 3);
  EXPECT_EQ(histogram.sum_squares, 21);
}

TEST(Distribution, LeavesOutWhatIsNoNumber) {
  Distribution distribution;
  const std::vector<float> numbers = {NAN, INFINITY, -INFINITY, 2};
  distribution.Add(numbers);
  EXPECT_EQ(distribution.count(), 1u);
  EXPECT_EQ(distribution.ToHistogram().min, 2);
  EXPECT_TRUE(Distribution().ToHistogram().counts.empty());
}

TEST(Distribution, WholeNumbers) {
  const std::vector<uint64_t> counts = {0, 5, 0, 0, 2, 0};
  const Histogram histogram = OfWholeNumbers(counts);
  EXPECT_EQ(histogram, (Histogram{.min = 1,
                                  .max = 4,
                                  .count = 7,
                                  .sum = 13,
                                  .sum_squares = 37,
                                  .limits = {1.5, 3.5, 4.5},
                                  .counts = {5, 0, 2}}));
  EXPECT_TRUE(OfWholeNumbers(std::vector<uint64_t>{0, 0}).counts.empty());
}

}  // namespace
}  // namespace leat::tensorboard
