// A process of a virtual cluster that follows the parameters, with the state for its checks. Used by
// followers.cc.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "protocol/subscribers/follower.h"

namespace leat::sim {

struct FollowerParts {
  // The values of all slices, one after the other, and which they are. Rounds take turns with two of them, as
  // a process that answers with the one while it fills the other.
  struct Memory {
    std::vector<float> values;
    protocol::FollowedValues held;
  };
  std::unique_ptr<protocol::Follower> machine;
  std::array<Memory, 2> memories;
  size_t filled = 0;  // index of the round's memory
  uint32_t incarnation = 0;
  bool joined = false;
  bool heartbeat_in_flight = false;
  NodeId node;
  Time last_heartbeat{0};
  Time wake_at = Time::max();
  std::map<NodeId, uint64_t> connections;  // their numbers: a message of an earlier one is void
  std::vector<protocol::SliceRef> placed;  // slices on the servers when the round began, as of its view
  std::map<SliceId, protocol::SliceRef> completed;  // slices of the last round
  std::optional<Time> last_asked;                   // when the last round asked
};

}  // namespace leat::sim
