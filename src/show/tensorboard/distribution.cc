#include "show/tensorboard/distribution.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace leat::tensorboard {
namespace {

// Upper limits of all buckets, ascending.
const std::vector<double>& Limits() {
  static const std::vector<double> limits = [] {
    std::vector<double> positive;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
    std::vector<double> all;
    for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) all.push_back(-*limit);
    all.push_back(0);
    all.insert(all.end(), positive.begin(), positive.end());
    all.push_back(std::numeric_limits<double>::max());
    return all;
  }();
  return limits;
}

void AddBucket(double limit, double count, Histogram* histogram) {
  if (count == 0 && histogram->counts.empty()) return;
  if (count == 0 && histogram->counts.back() == 0) {
    histogram->limits.back() = limit;
    return;
  }
  histogram->limits.push_back(limit);
  histogram->counts.push_back(count);
}

void EndBuckets(Histogram* histogram) {
  if (histogram->counts.empty() || histogram->counts.back() > 0) return;
  histogram->limits.pop_back();
  histogram->counts.pop_back();
}

}  // namespace

Distribution::Distribution() : buckets_(Limits().size()) {}

void Distribution::Add(std::span<const float> numbers) {
  const auto& limits = Limits();
  for (const float number : numbers) {
    if (!std::isfinite(number)) {
      ++not_finite_;
      continue;
    }
    const double x = number;
    // The first limit above it. No float reaches the last limit.
    ++buckets_[static_cast<size_t>(std::ranges::upper_bound(limits, x) - limits.begin())];
    min_ = count_ == 0 ? x : std::min(min_, x);
    max_ = count_ == 0 ? x : std::max(max_, x);
    ++count_;
    sum_ += x;
    sum_squares_ += x * x;
  }
}

Histogram Distribution::ToHistogram() const {
  Histogram made{.min = min_,
                 .max = max_,
                 .count = static_cast<double>(count_),
                 .sum = sum_,
                 .sum_squares = sum_squares_};
  for (size_t i = 0; i < buckets_.size(); ++i)
    AddBucket(Limits()[i], static_cast<double>(buckets_[i]), &made);
  EndBuckets(&made);
  return made;
}

Histogram OfWholeNumbers(std::span<const uint64_t> counts) {
  Histogram made;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto number = static_cast<double>(i), count = static_cast<double>(counts[i]);
    if (count > 0 && made.count == 0) made.min = number;
    if (count > 0) made.max = number;
    made.count += count;
    made.sum += number * count;
    made.sum_squares += number * number * count;
    AddBucket(number + 0.5, count, &made);
  }
  EndBuckets(&made);
  return made;
}

}  // namespace leat::tensorboard
