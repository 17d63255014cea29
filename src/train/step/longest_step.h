// The longest time between the ends of two batches lately: the longest wait of training, for any reason. Not
// thread-safe.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.h"

namespace leat::step {

class LongestStep {
 public:
  // A batch counts for at least this long after its end, and at most for twice as long.
  static constexpr Duration kSpan = std::chrono::seconds(5);

  void OnBatch(Time now) {
    if (!last_) {
      last_ = now;
      begun_ = now;
    }
    const Duration step = now - *std::exchange(last_, now);
    if (now - begun_ >= kSpan) {
      // Nothing else has ended for a whole span: the time before is too old.
      before_ = now - begun_ >= 2 * kSpan ? Duration::zero() : current_;
      current_ = Duration::zero();
      begun_ = now;
    }
    current_ = std::max(current_, step);
  }

  Duration longest() const { return std::max(before_, current_); }

 private:
  std::optional<Time> last_;
  Time begun_{0};  // start of the current span
  Duration before_{0}, current_{0};
};

}  // namespace leat::step
