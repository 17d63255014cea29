// Measurements of a running job: its speed, and when its learning reaches a target.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "show/report/job_status.h"

namespace leat::study {

// The speed of a job in its middle, from how many events have counted at which time: without its start, and
// without its end. Steps count many events at once, so the speed is taken between two moments at which
// events have counted.
class ThroughputMeter {
 public:
  // Ignores the time before `warm_up` after the first event.
  explicit ThroughputMeter(Duration warm_up) : warm_up_(warm_up) {}

  // `events` since the beginning; times do not decrease.
  void Add(Time now, uint64_t events);
  // How long events have been measured; 0: not yet.
  Duration measured() const;
  // Events per second; none if there were fewer than two moments.
  std::optional<double> rate() const;

 private:
  struct Moment {
    Time at{0};
    uint64_t events = 0;
  };
  Duration warm_up_;
  uint64_t seen_ = 0;
  std::optional<Time> begun_;
  std::optional<Moment> first_;
  Moment last_;
};

// The target of a job's learning: a figure over the last events that has to be reached. The figure is an
// entry of the job's status: `accuracy` and `auc` have to rise to the value, `loss` has to
// fall to it.
struct Target {
  std::string figure = "accuracy";
  double value = 0;
  uint64_t window = 5000;  // events that the figure has to cover at least: `metrics: window` of the job

  std::string Text() const;  // "accuracy 0.95"
};

// Parses "accuracy=0.95", "loss=0.3". Throws std::invalid_argument with the text.
Target ParseTarget(const std::string& text);

struct Reached {
  double seconds = 0;  // training time
  double events = 0;   // events that every slice has
};

// Finds out from a job's status when the target was reached.
class TargetWatch {
 public:
  explicit TargetWatch(std::optional<Target> target) : target_(std::move(target)) {}
  void OnStatus(const report::JobStatus& status);
  const std::optional<Reached>& reached() const { return reached_; }

 private:
  struct Moment {
    double seconds = 0, events = 0, value = 0;
  };

  std::optional<Target> target_;
  std::optional<Moment> last_;  // before it was reached
  std::optional<Reached> reached_;
};

}  // namespace leat::study
