// The Page-Hinkley test: an alarm when values drift away from their mean (Page 1954; Mouss et al. 2004).
//
// Two sums of the deviations from the mean so far, less (more) a tolerance of `delta` each, forget by the
// factor `alpha` per value. An increase of the mean raises the first sum above its minimum, a decrease lowers
// the second below its maximum; more than `threshold` is an alarm. Parameters, their defaults and every alarm
// are those of River's drift.PageHinkley: after an alarm, the next value starts anew. Not thread-safe.
#pragma once

#include <cstdint>
#include <limits>

#include "base/fields/fields.h"

namespace leat::metrics {

struct PageHinkleyOptions {
  enum class Mode : uint8_t { kUp, kDown, kBoth };
  uint32_t min_instances = 30;  // no alarm before so many values
  double delta = 0.005;         // tolerated deviation
  double threshold = 50;
  double alpha = 0.9999;  // forgetting factor
  Mode mode = Mode::kBoth;
  friend bool operator==(const PageHinkleyOptions&, const PageHinkleyOptions&) = default;
};
LEAT_ENUM(PageHinkleyOptions::Mode, (kUp, "up"), (kDown, "down"), (kBoth, "both"));

class PageHinkley {
 public:
  explicit PageHinkley(const PageHinkleyOptions& options) : options_(options) {}

  // Adds a finite value. True: an alarm.
  bool Update(double value);

  uint64_t width() const { return static_cast<uint64_t>(state_.count); }  // values since the last alarm
  double mean() const { return state_.mean; }                             // mean of these values

 private:
  struct State {
    bool alarm = false;  // raised by the last value
    double count = 0;
    double mean = 0;
    double increase = 0, decrease = 0;
    double least_increase = std::numeric_limits<double>::infinity();
    double most_decrease = -1;  // as in River
  };

  PageHinkleyOptions options_;
  State state_;
};

}  // namespace leat::metrics
