// Heartbeats of servers, counted: how the coordinator knows that a server has reported what it had at some
// moment.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "base/ids.h"

namespace leat::protocol {

using HeartbeatCounts = std::map<NodeId, uint64_t>;  // so far, of each server that is there

// True when every server that was there `then`, and still is, has made a heartbeat since. The first one to
// arrive may have been made before; the second was made after the first was answered.
inline bool AllReportedSince(const HeartbeatCounts& then, const HeartbeatCounts& now) {
  constexpr uint64_t kHeartbeatsNeeded = 2;
  return std::all_of(then.begin(), then.end(), [&](const auto& heartbeat) {
    const auto its = now.find(heartbeat.first);
    return its == now.end() || its->second >= heartbeat.second + kHeartbeatsNeeded;
  });
}

}  // namespace leat::protocol
