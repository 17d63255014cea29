// Members that are gone, and the consequences in all concerns: one leaves, is lost, or is evicted.
//
// Invariants:
// - A loss is journaled before anything follows from it, and the concerns hear of it from the bottom to the
//   top, each once.
// - A server's slices are its replicas' at once, if they have any. In stepped strategies all slices go back
//   otherwise, because they must be at the same step.
// - A member is evicted if it is silent, lacks slices that were moved to it, cannot be reached by the others
//   of its group, or holds up the group. Nobody is evicted for a time in which the coordinator did not run.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include "protocol/ending/job_end.h"
#include "protocol/succession/succession.h"

namespace leat::protocol {

class Departures {
 public:
  using Gone = Roster::Gone;

  Departures(const Concerns& concerns, Succession* succession, JobEnd* end)
      : to_(concerns), job_(concerns.roster.settings()), succession_(*succession), end_(*end) {}

  void Remove(Time now, NodeId node, Gone how);
  // The process has ended. Ignored if it is no member.
  void OnLost(Time now, NodeId node);
  // The loss of a member whose process may still be alive.
  void Evict(Time now, NodeId node);
  // Gives slices to servers, or names groups (all-reduce) and evicts who is excluded from them, as far as
  // that is due.
  void PlaceSlices(Time now);
  // Evicts who is silent or overdue, if it is time for that.
  void Sweep(Time now);
  Time next_sweep() const { return next_sweep_; }

 private:
  void AdvanceGroups(Time now);

  Concerns to_;
  const MemberSettings& job_;
  Succession& succession_;
  JobEnd& end_;
  Time next_sweep_{0};
};

}  // namespace leat::protocol
