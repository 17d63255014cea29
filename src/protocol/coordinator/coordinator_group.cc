// All-reduce: there are no servers, and each member of a group has all slices.
//
// For progress and checkpoints, each slice is assigned to the member that saves it, and each group is a new
// incarnation of all slices. Each slice has the runs that all members have.
#include <algorithm>
#include <utility>

#include "protocol/coordinator/coordinator_state.h"
#include "protocol/guards.h"

namespace leat::protocol {

void Coordinator::State::StepGroups(Time now) {
  if (!cursors.started()) return;
  while (true) {
    if (!groups.Step(now, [this] { return NextId(); })) {
      const std::vector<NodeId> excluded = groups.TakeExcluded();
      if (excluded.empty()) break;
      for (const NodeId node : excluded) Evict(now, node);
      continue;
    }
    const auto& group = groups.current();
    if (group && !group->decided) {
      GroupNamed named{group->id, {}};
      for (const Member& member : group->members) named.members.push_back(member.node);
      journals.push_back({std::move(named)});
      continue;
    }
    std::vector<NodeId> savers;
    if (group) {
      for (const Member& member : group->members) savers.push_back(member.node);
    }
    const bool survived = group && !groups.from_source();
    slices.Regroup(savers, Incarnation(group ? group->id : NextId()), survived);
    if (!survived) rounds.Rollback(slices.Version());
    view_changed = true;
  }
  if (groups.failure().ok() || ending >= Ending::kStoppingMembers || suspicion) return;
  Status why = groups.failure();
  if (config.strategy.mpi) {
    why = Status(why.code(), why.message() + "; " +
                                 (durable ? "--resume continues from " + durable->directory
                                          : std::string("there is no checkpoint to resume from")));
  }
  StopMembers(now, std::move(why));
}

Status Coordinator::State::CheckMpiRank(const JoinRequest& request) const {
  const auto mpirun = [this] { return "mpirun -np " + std::to_string(config.workers) + " leat worker …"; };
  if (!request.mpi) {
    return {Code::kFailedPrecondition,
            "the workers of this job reduce by MPI, and this one was not started by " + mpirun()};
  }
  const auto [rank, all] = *request.mpi;
  if (all != config.workers || rank >= all) {
    return {Code::kFailedPrecondition, "this worker is rank " + std::to_string(rank) + " of " +
                                           std::to_string(all) + " of MPI, the job has " +
                                           std::to_string(config.workers) + " workers: " + mpirun()};
  }
  for (const auto& [node, member] : members) {
    if (member.member.role == Role::kWorker && member.member.index == rank) {
      return {Code::kFailedPrecondition,
              "worker " + std::to_string(rank) + " has already joined, at " + member.member.address};
    }
  }
  return {};
}

// A member's share of one step is a lease, under the member's own number.
void Coordinator::State::PaceMember(Time now, NodeId node, const MemberReport& report) {
  MemberState& member = members.at(node);
  member_pace.OnHeartbeat(now, node, report.waiting);
  if (report.step == member.step && member.paced) return;
  member_pace.OnEnded(now, node, node.value);
  member_pace.OnGranted(now, node, node.value);
  member.step = report.step;
  member.paced = true;
}

void Coordinator::State::OnMemberReport(Time now, const WorkerHeartbeat& heartbeat,
                                        WorkerHeartbeatReply* reply) {
  const NodeId node = heartbeat.node;
  const MemberReport& report = *heartbeat.member_report;
  groups.Report(now, node, report, heartbeat.unreachable);
  // MPI has no second group, and the job ends.
  if (const auto group = groups.RestoreFailed(); group && *group != suspected_group && !config.strategy.mpi) {
    suspected_group = *group;
    Suspect(Status());
  }
  PaceMember(now, node, report);
  StepGroups(now);
  if (const MemberReport* least = groups.Least()) {
    const bool was_ready = slices.ready();
    if (!was_ready || slices.Version() < least->step) {
      slices.ReportAll({{}, least->events, least->partitions, least->step});
    }
    if (!was_ready) rounds.Reconsider(now, slices);
    rounds.OnServerReport(now, slices, heartbeat_counts);
    if (!was_ready) view_changed = true;
  }
  if (cursors.started()) reply->start = cursors.start();
  const auto& group = groups.current();
  if (!group || !groups.Has(node)) return;
  reply->group = group;
  if (group->decided && groups.from_source()) reply->group->orders = slices.Orders();
  if (!guards::SameGroup(report.group, group->id)) return;

  if (report.shard) OnShard(now, node, *report.shard);
  if (const MemberReport* most = groups.Rejected();
      most != nullptr && most->consecutive_rejected >= std::max(config.max_consecutive_rejected, 1u)) {
    ServerHeartbeat said;
    said.consecutive_rejected = most->consecutive_rejected;
    said.rejected = most->rejected;
    StopMembers(now, Rejected(said));
    return;
  }
  if (groups.phase() != GroupCoordinator::Phase::kRunning) return;
  // Rounds known to a member are trained to their end, so that all members do the same steps.
  if (ending == Ending::kNone) MakeRounds(now);
  reply->rounds = rounds.RoundsFrom(report.rounds_until, ending == Ending::kNone);
  reply->checkpoint = CheckpointOrderFor(node);
}

}  // namespace leat::protocol
