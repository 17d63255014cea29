// The members of the former coordinator that this one awaits: they keep their nodes, and say what they hold
// once they have reached this coordinator.
//
// Invariant: an awaited node is a member; a member that is gone is not awaited.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "protocol/members/roster.h"

namespace leat::protocol {

class ReturningMembers {
 public:
  explicit ReturningMembers(const Roster* roster) : roster_(*roster) {}

  void Await(const MemberJoined& joined) {
    awaited_.insert(joined.member.node);
    taken_over_.push_back(joined);
  }
  // The member has reached this coordinator, or is gone. Returns true if it was the last awaited worker.
  bool EndWait(NodeId node, Role role) {
    return awaited_.erase(node) > 0 && role == Role::kWorker && !Awaits(Role::kWorker);
  }
  bool Awaits(NodeId node) const { return awaited_.contains(node); }
  bool Awaits(Role role) const {
    return std::ranges::any_of(awaited_, [&](NodeId node) { return roster_.At(node).Is(role); });
  }
  const std::set<NodeId>& awaited() const { return awaited_; }
  // "ps 0, worker 2"; empty: nobody is awaited.
  std::string Names() const {
    return Joined(awaited_, ", ", [this](NodeId node) { return Name(roster_.At(node).member); });
  }
  // As they were journaled, also those that have returned.
  const std::vector<MemberJoined>& taken_over() const { return taken_over_; }

 private:
  const Roster& roster_;
  std::vector<MemberJoined> taken_over_;
  std::set<NodeId> awaited_;
};

}  // namespace leat::protocol
