#include "base/metrics/skew.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace leat::metrics {

double Skew(const Distribution& share, const Distribution& whole) {
  if (share.weight <= 0 || whole.weight <= 0) return std::numeric_limits<double>::quiet_NaN();
  if (whole.bins.empty()) {
    // Sums that were rounded must not make a constant vary.
    constexpr double kConstant = 1e-6;
    const double deviation = std::sqrt(whole.variance());
    const bool constant = deviation <= kConstant * std::abs(whole.mean);
    return constant ? 0 : std::abs(share.mean - whole.mean) / deviation;
  }
  double apart = 0;
  for (size_t i = 0; i < whole.bins.size(); ++i)
    apart += std::abs(share.bins[i] / share.weight - whole.bins[i] / whole.weight);
  return apart / 2;
}

double EffectiveSplits(const SplitSums& share, const SplitSums& whole) {
  const double rest = whole.events - share.events;
  if (share.events <= 0 || rest <= 0) return 0;
  const double rest_squares = std::max(0.0, whole.squares - share.squares);
  const double outside = rest / whole.events;
  return 1 /
         (outside * outside * (share.squares / (share.events * share.events) + rest_squares / (rest * rest)));
}

double SkewLimit(const Distribution& whole, double n, double alpha) {
  if (n <= 0 || whole.weight <= 0) return std::numeric_limits<double>::infinity();
  if (whole.bins.empty()) return std::sqrt(2 * std::log(2 / alpha) / n);
  double expected = 0;
  for (const double bin : whole.bins) {
    const double p = std::clamp(bin / whole.weight, 0.0, 1.0);
    expected += std::sqrt(p * (1 - p) / n);
  }
  return expected / 2 + std::sqrt(std::log(1 / alpha) / (2 * n));
}

}  // namespace leat::metrics
