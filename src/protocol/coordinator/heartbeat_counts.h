// Counts of servers' heartbeats. They tell the coordinator when a server has reported its state as of a given
// moment.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "base/ids.h"

namespace leat::protocol {

using HeartbeatCounts = std::map<NodeId, uint64_t>;  // so far, by connected server

// True if every server present `then`, and still present, has made a heartbeat since. Two must arrive: the
// first may have been made before `then`, the second was made after the first was answered.
inline bool AllReportedSince(const HeartbeatCounts& then, const HeartbeatCounts& now) {
  constexpr uint64_t kHeartbeatsNeeded = 2;
  return std::all_of(then.begin(), then.end(), [&](const auto& heartbeat) {
    const auto its = now.find(heartbeat.first);
    return its == now.end() || its->second >= heartbeat.second + kHeartbeatsNeeded;
  });
}

}  // namespace leat::protocol
