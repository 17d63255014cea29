// Measurements of how a job's throughput depends on the number of its workers. Pure state, part of the
// autoscaler.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/clock.h"

namespace leat::protocol {

class WorkerGains {
 public:
  // The job trained so many events per second while it was behind, so all its workers had work. `settled`:
  // for long enough after the last change.
  void Record(Time now, uint32_t workers, double throughput, bool settled) {
    sizes_[workers] = {throughput, now, settled};
  }
  // Sizes above this one are to be measured again.
  void ForgetAbove(uint32_t workers) { sizes_.erase(sizes_.upper_bound(workers), sizes_.end()); }
  void Clear() { sizes_.clear(); }

  // Events per second that one more worker would add to `workers` if it adds as much as the last ones; none
  // if that was not measured, or if they have added nothing.
  std::optional<double> Gain(uint32_t workers) const;
  // The size was measured at `since` or later.
  bool Knows(uint32_t workers, Time since) const;
  // The events per second that so many workers train at least, when `present` workers have just trained
  // `throughput`. A worker adds at most as much as the one before it, so throughput between two sizes is not
  // below the line between them.
  double AtLeast(uint32_t workers, uint32_t present, double throughput) const;

 private:
  struct Measured {
    double throughput = 0;
    Time at{0};
    bool settled = false;
  };
  std::map<uint32_t, Measured> sizes_;  // by number of workers
};

}  // namespace leat::protocol
