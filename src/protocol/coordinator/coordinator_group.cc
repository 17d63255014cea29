// Where there are no servers: workers in groups hold all slices, each of them all.
//
// To what counts progress and makes checkpoints a slice lives where it is saved, and a group is a life of all
// of them; what all of its members hold is what each slice holds.
#include <algorithm>
#include <utility>

#include "protocol/coordinator/coordinator_state.h"
#include "protocol/guards.h"

namespace leat::protocol {

void Coordinator::State::StepGroups(Time now) {
  if (!cursors.started()) return;
  while (groups.Step(now, [this] { return NextId(); })) {
    const auto& group = groups.current();
    if (group && !group->decided) continue;
    std::vector<NodeId> savers;
    if (group) {
      for (const Member& member : group->members) savers.push_back(member.node);
    }
    const bool survived = group && !groups.from_source();
    slices.Regroup(savers, Incarnation(group ? group->id : NextId()), survived);
    if (!survived) rounds.Rollback(slices.Version());
    view_changed = true;
  }
  if (groups.failure().ok() || ending >= Ending::kStoppingMembers) return;
  Status why = groups.failure();
  if (config.strategy.mpi) {
    why = Status(why.code(), why.message() + "; " +
                                 (durable ? "--resume goes on from " + durable->directory
                                          : std::string("there is no checkpoint to resume from")));
  }
  RoundsFrom(now, std::move(why));
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
              "worker " + std::to_string(rank) + " is there already, at " + member.member.address};
    }
  }
  return {};
}

void Coordinator::State::OnMemberReport(Time now, NodeId node, const MemberReport& report,
                                        WorkerHeartbeatReply* reply) {
  groups.Report(now, node, report);
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
    RoundsFrom(now, Rejected(said));
    return;
  }
  if (groups.phase() != GroupCoordinator::Phase::kRunning) return;
  // Rounds that somebody knows are trained to their end, whatever comes: all members go through the same.
  if (ending == Ending::kNone) {
    while (auto made = rounds.Make(now)) journals.push_back({std::move(*made)});
  }
  reply->rounds = rounds.RoundsFrom(report.rounds_until, ending == Ending::kNone);
  reply->checkpoint = CheckpointOrderFor(node);
}

}  // namespace leat::protocol
