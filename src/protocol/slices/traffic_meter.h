// The traffic of each slice, from the totals that servers report now and then. Pure state, part of the
// coordinator. Not thread-safe.
#pragma once

#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "protocol/messages_control.h"

namespace leat::protocol {

class TrafficMeter {
 public:
  explicit TrafficMeter(size_t slices) : slices_(slices) {}

  void OnReport(Time now, NodeId server, const std::vector<SliceTraffic>& traffic);
  // Bytes per second of each slice, with something added for each request; a mean of the last reports. Empty
  // until all slices have been measured.
  std::vector<double> Rates() const;

 private:
  struct Slice {
    NodeId server;  // server of the last report
    double total = 0;
    Time at{0};
    double rate = -1;  // unknown
  };
  std::vector<Slice> slices_;
};

}  // namespace leat::protocol
