#include "base/metrics/page_hinkley.h"

#include <algorithm>

namespace leat::metrics {

bool PageHinkley::Update(double value) {
  if (state_.alarm) state_ = {};
  State& s = state_;
  s.count += 1;
  s.mean += 1 / s.count * (value - s.mean);
  const double deviation = value - s.mean;
  s.increase = options_.alpha * s.increase + deviation - options_.delta;
  s.decrease = options_.alpha * s.decrease + deviation + options_.delta;
  s.least_increase = std::min(s.least_increase, s.increase);
  s.most_decrease = std::max(s.most_decrease, s.decrease);
  if (s.count < options_.min_instances) return false;
  using Mode = PageHinkleyOptions::Mode;
  const bool up = options_.mode != Mode::kDown && s.increase - s.least_increase > options_.threshold;
  const bool down = options_.mode != Mode::kUp && s.most_decrease - s.decrease > options_.threshold;
  return s.alarm = up || down;
}

}  // namespace leat::metrics
