// The speed of a job in its middle, from how many events have counted at which time: without its start, and
// without its end.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace leat::study {

// Steps count many events at once, so the speed is taken between two moments at which events have counted.
class ThroughputMeter {
 public:
  // Ignores the time before `warm_up` after the first event.
  explicit ThroughputMeter(Duration warm_up) : warm_up_(warm_up) {}

  // `events` since the beginning; times do not decrease.
  void Note(Time now, uint64_t events);
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

}  // namespace leat::study
