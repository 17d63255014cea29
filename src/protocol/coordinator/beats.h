// Heartbeats of servers, counted: how the coordinator knows that a server has reported what it had at some
// moment.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "base/ids.h"

namespace leat::protocol {

using Beats = std::map<NodeId, uint64_t>;  // so far, of each server that is there

// True when every server that was there `then`, and still is, has made a heartbeat since. The first one to
// arrive may have been made before; the second was made after the first was answered.
inline bool Settled(const Beats& then, const Beats& now) {
  constexpr uint64_t kToSettle = 2;
  return std::all_of(then.begin(), then.end(), [&](const auto& beat) {
    const auto its = now.find(beat.first);
    return its == now.end() || its->second >= beat.second + kToSettle;
  });
}

}  // namespace leat::protocol
