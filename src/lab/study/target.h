// The target of a job's learning: a figure over the last events that has to be reached.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "show/report/job_status.h"

namespace leat::study {

// The figure is an entry of the job's status: `accuracy` and `auc` have to rise to the value, `loss` has to
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
  void Note(const report::JobStatus& status);
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
