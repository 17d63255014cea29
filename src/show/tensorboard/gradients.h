// The distribution of each variable's gradient, as a worker sends it. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "compute/optim/init.h"
#include "show/tensorboard/events.h"

namespace leat::tensorboard {

// Limit of the numbers that are read of all gradients, so that a worker is done in some milliseconds. If
// there are more, every second, third or n-th number is read.
inline constexpr uint64_t kMostGradients = 4 << 20;
inline constexpr size_t kMostGradientBytes = 512 << 10;
inline constexpr size_t kMostBuckets = 1 << 14;  // buckets of a histogram

// kDataLoss: its limits do not ascend, or it has not as many counts.
Status Check(const Histogram& histogram);

// `gradient`: that of the variable with this index. Moments are left out, and so are the last variables if
// the rest takes kMostGradientBytes.
Bytes EncodeGradients(const std::vector<optim::VariableSpec>& variables,
                      const std::function<std::span<const float>(size_t)>& gradient);
// By the names of the variables. kDataLoss if it is not from EncodeGradients for these variables.
Result<std::vector<std::pair<std::string, Histogram>>> DecodeGradients(
    ByteView bytes, const std::vector<optim::VariableSpec>& variables);

// Histograms of numbers. Pure.

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
