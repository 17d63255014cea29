// Histograms of numbers. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "show/tensorboard/events.h"

namespace leat::tensorboard {

// Collects numbers in the buckets that TensorFlow uses: each is a tenth wider than the one before it, from
// 1e-12 to 1e20, and the same below zero. Not thread-safe.
class Distribution {
 public:
  Distribution();
  // Numbers that are not finite are counted apart.
  void Add(std::span<const float> numbers);
  uint64_t not_finite() const { return not_finite_; }
  uint64_t count() const { return count_; }
  // Empty buckets before the first number and behind the last are left out. Where several empty ones follow
  // each other, only the last of them is listed.
  Histogram ToHistogram() const;

 private:
  std::vector<uint64_t> buckets_;
  uint64_t count_ = 0, not_finite_ = 0;
  double min_ = 0, max_ = 0, sum_ = 0, sum_squares_ = 0;
};

// counts[i] times the whole number i. No bucket if all are 0.
Histogram OfWholeNumbers(std::span<const uint64_t> counts);

}  // namespace leat::tensorboard
