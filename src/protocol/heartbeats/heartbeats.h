// Heartbeats, and the members that fall silent. A heartbeat tells the concerns what its member has, and each
// concern adds its part of the reply. A member that is gone, because it leaves, is lost, or is evicted, has
// consequences in all concerns.
//
// Invariants:
// - A heartbeat that says to be of another term is heard, and changes nothing else. Its reply says the term,
//   and the next heartbeat says what the member holds.
// - A process that is no member is told that it was evicted; every member is told once the job stops its
//   members.
// - A member says what it holds before it gets anything: leases are reconciled before others are granted, and
//   the slices of a report are known before orders are given.
// - A loss is journaled before anything follows from it, and the concerns hear of it from the bottom to the
//   top, each once.
// - A server's slices are its replicas' at once, if they have any. In stepped strategies all slices go back
//   otherwise, because they must be at the same step.
// - A member is evicted if it is silent, lacks slices that were moved to it, cannot be reached by the others
//   of its group, or holds up the group. Nobody is evicted for a time in which the coordinator did not run.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/ending/job_end.h"
#include "protocol/succession/succession.h"

namespace leat::protocol {

class Heartbeats {
 public:
  using Gone = Roster::Gone;

  // After `max_rejected` consecutive non-finite gradients the job ends.
  Heartbeats(const Concerns& concerns, uint32_t max_rejected, Succession* succession, JobEnd* end)
      : to_(concerns),
        job_(concerns.roster.settings()),
        slices_(concerns.placement.map()),
        max_rejected_(max_rejected),
        succession_(*succession),
        end_(*end) {}

  // ---- members that are heard
  WorkerHeartbeatReply Hear(Time now, const WorkerHeartbeat& heartbeat);
  ControlReply Hear(Time now, const ServerHeartbeat& heartbeat);  // or a Refusal
  BotsHeartbeatReply Hear(Time now, const BotsHeartbeat& heartbeat);
  FeedHeartbeatReply Hear(Time now, const FeedHeartbeat& heartbeat);
  ServeHeartbeatReply Hear(Time now, const ServeHeartbeat& heartbeat);
  // The reports of a feed; node 0: the coordinator's own.
  void OnPublishers(Time now, NodeId feed, const std::vector<PublisherReport>& reports);

  // ---- members that are gone
  void Remove(Time now, NodeId node, Gone how);
  // The process has ended. Ignored if it is no member.
  void OnLost(Time now, NodeId node) {
    if (to_.roster.Has(node)) Remove(now, node, Gone::kLost);
  }
  // Gives slices to servers, or names groups (all-reduce) and evicts who is excluded from them, as far as
  // that is due.
  void PlaceSlices(Time now);
  // Evicts who is silent or overdue, if it is time for that.
  void Sweep(Time now);
  Time next_sweep() const { return next_sweep_; }

 private:
  // Tells a member to stop that is not known, or any once the job stops its members.
  template <class Reply>
  bool TellToStop(MemberState* member, Reply* reply) const;
  template <class Heartbeat, class Reply>
  bool HearServing(Time now, const Heartbeat& heartbeat, Role role, Reply* reply);
  void OnReady(Time now, const MemberState& worker);
  void Lease(Time now, MemberState* worker, const WorkerHeartbeat& heartbeat, WorkerHeartbeatReply* reply);
  void Reduce(Time now, const WorkerHeartbeat& heartbeat, WorkerHeartbeatReply* reply);
  // Takes a server's report. Returns why the job ends.
  Status OnReport(Time now, const ServerHeartbeat& heartbeat);
  // Why the job ends after so many non-finite gradients in a row; ok: there are fewer than the limit.
  Status CheckRejected(uint32_t consecutive, const std::optional<RejectedRun>& last) const;
  // The loss of a member whose process may still be alive.
  void Evict(Time now, NodeId node) {
    to_.roster.MarkEvicted(node);
    Remove(now, node, Gone::kEvicted);
  }

  Concerns to_;
  const MemberSettings& job_;
  SliceMap& slices_;
  uint32_t max_rejected_;
  Succession& succession_;
  JobEnd& end_;
  Time next_sweep_{0};
};

}  // namespace leat::protocol
