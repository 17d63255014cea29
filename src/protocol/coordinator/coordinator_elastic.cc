// Workers that come and go while the job runs.
#include <map>
#include <string>

#include "protocol/coordinator/coordinator_state.h"

namespace leat::protocol {

// Before a worker is ready, nobody waits for it.
void Coordinator::State::OnWorkerReady(Time now, const MemberState& worker) {
  AllReduce() ? groups.Join(now, worker.member, worker.process) : ShareLanes();
}

Status Coordinator::State::Drain(NodeId worker) {
  const auto at = members.find(worker);
  if (at == members.end()) return {Code::kNotFound, "node " + ToString(worker) + " is no member"};
  Member& member = at->second.member;
  if (member.role != Role::kWorker) return {Code::kFailedPrecondition, Name(member) + " is no worker"};
  if (config.strategy.mpi) {
    return {Code::kFailedPrecondition,
            Name(member) + " cannot leave: MPI cannot continue without one of its processes"};
  }
  member.state = Member::State::kDraining;
  view_changed = true;
  return {};
}

// Among the workers that can take lanes.
void Coordinator::State::ShareLanes() {
  if (!Stepped()) return;
  std::map<uint32_t, NodeId> workers;  // by index
  for (const auto& [node, its] : members) {
    const bool takes = its.ready && !its.isolated && its.member.state == Member::State::kActive;
    if (its.member.role == Role::kWorker && takes) workers[its.member.index] = node;
  }
  rounds.SetWorkers(workers);
}

Status Coordinator::Drain(NodeId worker) {
  return state_->Drain(worker);
}

}  // namespace leat::protocol
