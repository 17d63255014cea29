// Counts of servers' heartbeats. They tell the coordinator when a server has reported its state as of a given
// moment.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "base/ids.h"
#include "protocol/messages_control.h"

namespace leat::protocol {

// Counts of a server's heartbeats so far.
struct HeartbeatCount {
  uint64_t heartbeats = 0;
  uint64_t report = 0;    // number of the newest report
  uint64_t begun = 0;     // the heartbeat with its first part
  uint64_t complete = 0;  // the heartbeat that began the last report whose parts have all arrived
  uint64_t silent = 0;    // until this heartbeat, others have reported some of its slices

  void Add(const ServerHeartbeat& heartbeat) {
    ++heartbeats;
    if (heartbeat.report < report) return;  // a part that was overtaken on its way
    // A part that is repeated belongs to a report that began earlier.
    if (heartbeat.report > report || report == 0) begun = heartbeats;
    report = heartbeat.report;
    if (!heartbeat.more) complete = begun;
  }
  // From now on, the server has to report slices itself that others have reported until now.
  void Rely() { silent = heartbeats; }
};

using HeartbeatCounts = std::map<NodeId, HeartbeatCount>;  // by connected server

// True if every server present `then`, and still present, has reported its whole state since. The report must
// begin with the second heartbeat after `then`: the first may have been made before `then`, the second was
// made after the first was answered.
inline bool AllReportedSince(const HeartbeatCounts& then, const HeartbeatCounts& now) {
  constexpr uint64_t kHeartbeatsNeeded = 2;
  return std::all_of(then.begin(), then.end(), [&](const auto& heartbeat) {
    const auto current = now.find(heartbeat.first);
    if (current == now.end()) return true;
    const uint64_t since = std::max(heartbeat.second.heartbeats, current->second.silent);
    return current->second.complete >= since + kHeartbeatsNeeded;
  });
}

}  // namespace leat::protocol
