// All-reduce in the coordinator: there are no servers, and each member of a group has all slices
// (group_coordinator.h decides the groups).
//
// Invariants:
// - For progress and checkpoints, each slice is assigned to the member that saves it, and each group is a new
//   incarnation of all slices. Each slice has the runs that all members have.
// - A group is journaled (GroupNamed) before any of its members knows it.
// - A member's share of one step is a lease, under the member's own number: the others wait for it, so an
//   overdue member leaves the job.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "protocol/allreduce/group_coordinator.h"
#include "protocol/leases/leases.h"

namespace leat::protocol {

class MemberGroups {
 public:
  MemberGroups(Roster* roster, SliceMap* slices, Leases* leases, Outbox* outbox);

  GroupCoordinator& groups() { return groups_; }
  const GroupCoordinator& groups() const { return groups_; }

  // ---- members
  void Join(Time now, const MemberState& worker) { groups_.Join(now, worker.member, worker.process); }
  void Remove(Time now, NodeId node, bool left);
  // The group of the former coordinator, if all of its members are here: without one of them, it has ended.
  void Restore(const GroupNamed& former);
  // The members whose share of a step has become overdue. The caller evicts them.
  std::vector<NodeId> Overdue(Time now);

  // ---- reports
  // Takes a member's report. Returns true if, for the first time in its group, a member cannot restore the
  // slices from the checkpoint, and there may be another group (MPI has none).
  bool OnReport(Time now, const WorkerHeartbeat& heartbeat);
  // Names or decides groups as far as is possible. Returns members that others cannot reach: the caller
  // evicts them, and calls it again.
  std::vector<NodeId> Advance(Time now);
  // The slices have what the member with the lowest step has.
  void ReportProgress(Time now);
  // Fills in the group of the reply. False if the report is about another group, so the rest is not.
  bool FillIn(const WorkerHeartbeat& heartbeat, WorkerHeartbeatReply* reply) const;
  bool running() const { return groups_.phase() == GroupCoordinator::Phase::kRunning; }

  // Pairs that cannot reach each other.
  std::vector<std::pair<NodeId, NodeId>> Unreachable() const { return groups_.Unreachable(); }
  uint64_t overdue() const { return overdue_; }  // members, since the start

 private:
  void Pace(Time now, NodeId node, const MemberReport& report);

  Roster& roster_;
  SliceMap& slices_;
  Leases& leases_;
  Outbox& outbox_;
  GroupCoordinator groups_;
  LeasePace pace_;                          // pace of each member's share of a step
  std::map<NodeId, uint64_t> paced_steps_;  // as reported last
  uint64_t suspected_ = 0;                  // the last group whose members could not restore their slices
  uint64_t overdue_ = 0;
};

}  // namespace leat::protocol
