// All-reduce in the coordinator: there are no servers, and each member of a group has all slices.
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
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/leases/leases.h"
#include "protocol/messages_control.h"

namespace leat::protocol {

struct GroupCoordinatorConfig {
  uint32_t workers = 1;  // the first group waits for this many, but at most first_wait
  Duration first_wait = std::chrono::seconds(10);
  Duration join_wait = std::chrono::milliseconds(300);  // lets workers that start together join together
  // Consecutive groups that failed without a step, before the job fails. The pause between them doubles.
  uint32_t max_failures = 8;
  Duration first_pause = std::chrono::milliseconds(50);
  // How long the process of a member that others cannot reach is left out. Doubles each time, up to a
  // maximum.
  Duration first_exclusion = std::chrono::seconds(30);
  Duration max_exclusion = std::chrono::minutes(10);
  // MPI: exactly `workers` members, whose index is their rank. After a member is lost silently, mpirun makes
  // the others leave or fail at once. This is how long to wait before the failure is attributed to a member.
  bool mpi = false;
  Duration mpi_silence = std::chrono::seconds(6);
};

// The coordinator's side of all-reduce: decides which workers form the current group and from which step it
// starts (protocol/allreduce/group_member.h describes the protocol).
//
// It names a new group when a member is lost or fails, and when new workers wait. No group makes a step
// before all its members have left every earlier group and hold the step it starts from. A step made by only
// some members of the former group is therefore either adopted by all or lost completely. A worker that was
// evicted joins again as a new node without state, so histories never diverge.
//
// Two members that cannot reach each other would let every group fail. After two groups in a row that failed
// for the same pair, one of the two leaves the job: the one with more such pairs, or the younger. Its process
// may join again, and is left out of groups for a while, longer each time.
//
// With MPI there is one group for the whole job, because MPI membership is fixed. It waits for all its
// members without a limit, and a member that is lost, leaves or fails ends the job.
class GroupCoordinator {
 public:
  enum class Phase : uint8_t {
    kNone,       // no members, or not enough yet
    kGathering,  // not all members have reported what they hold
    kSyncing,    // not all members hold the step that the group starts from
    kRunning,
  };

  explicit GroupCoordinator(const GroupCoordinatorConfig& config) : config_(config) {}

  // `process` tells whether it is the process of an earlier member; 0: it is not.
  void Join(Time now, const Member& member, uint64_t process = 0);
  // `left`: it announced that it leaves.
  void Remove(Time now, NodeId node, bool left = false);
  // `unreachable`: the members because of which the group has failed for this one.
  void Report(Time now, NodeId node, const MemberReport& report, const std::vector<NodeId>& unreachable = {});
  // The step of the newest durable checkpoint. No group starts from an earlier step.
  void SetSource(Time now, uint64_t step);
  void WaitFor(uint32_t workers) { config_.workers = workers; }  // GroupCoordinatorConfig::workers
  // It is damaged, and one of this step has taken its place. Forms a new group.
  void RestartFrom(uint64_t step);
  // The current group if it starts from the checkpoint and a member has failed before it held the state.
  std::optional<uint64_t> RestoreFailed() const;
  // The current group of the former coordinator, whose members have joined. It goes on if all of them report
  // that they have started; otherwise another one is named.
  void Restore(uint64_t id, std::vector<Member> members);
  // Advances after these calls and with time. Returns true if a group was named or decided, that is,
  // current() changed.
  bool Advance(Time now, const std::function<uint64_t()>& next_id);

  Phase phase() const { return phase_; }
  // The members that have to leave the job since the last call, because others cannot reach them. The caller
  // removes them.
  std::vector<NodeId> TakeExcluded() { return std::exchange(excluded_, {}); }
  // Pairs that cannot reach each other: in the groups that just failed, and of excluded processes.
  std::vector<std::pair<NodeId, NodeId>> Unreachable() const;
  // Without orders. If `from_source()`, the caller adds those of the newest checkpoint.
  const std::optional<Group>& current() const { return group_; }
  bool from_source() const { return from_source_; }
  bool Has(NodeId node) const { return in_group_.contains(node); }  // in the current group
  // The report of the member with the lowest step; null unless running.
  const MemberReport* Least() const;
  // The report with the most consecutive non-finite steps; null if there are none.
  const MemberReport* Rejected() const;
  // Why no further groups are named; ok otherwise.
  const Status& failure() const { return failure_; }

 private:
  using Pair = std::pair<NodeId, NodeId>;  // the older first

  struct Waiting {
    Member member;
    uint64_t process = 0;
    Time since{0};                    // in the future: excluded until then
    std::vector<NodeId> unreachable;  // while excluded
  };
  struct InGroup {
    std::optional<MemberReport> report;  // the last one under the group's id
    std::vector<NodeId> unreachable;
  };
  struct Exclusion {
    Time until{0};
    Duration length{0};
    std::vector<NodeId> unreachable;
  };

  struct Ending {
    Time due{0};
    std::string why;
  };

  bool Due(Time now) const;
  // The members have made a step together since the last group was named.
  bool Progressed() const;
  void CountUnreachable();
  std::optional<NodeId> ToExclude() const;
  void Exclude(Time now, NodeId node);
  void EndMpi(Time due, const Member& member, const std::string& what);
  void Name(Time now, uint64_t id);
  bool AllReported() const;
  bool Decide();
  bool ContinueRestored();

  GroupCoordinatorConfig config_;
  std::map<NodeId, Waiting> members_;  // the job's members, in the group or not
  std::optional<Time> first_since_;
  std::optional<Group> group_;
  std::map<NodeId, InGroup> in_group_;
  Phase phase_ = Phase::kNone;
  bool from_source_ = false;
  bool restored_ = false;  // and it is not known yet whether the group goes on
  uint64_t source_ = 0;
  bool anew_ = false;          // a member is lost: form a new group as soon as possible
  std::optional<Time> again_;  // a member has failed: form a new group at this time
  std::string why_;
  uint32_t failures_ = 0;
  std::map<Pair, uint32_t> unreachable_;      // groups in a row that failed for the pair
  std::map<uint64_t, Exclusion> exclusions_;  // by process
  std::vector<NodeId> excluded_;              // for TakeExcluded
  uint64_t best_ = 0;                         // the highest step that all members of a group have held
  std::optional<Ending> ending_;              // end of MPI's group
  Status failure_;
};

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
