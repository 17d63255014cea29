// Workers that come and go while the job runs.
#include <string>

#include "protocol/coordinator/coordinator_state.h"

namespace leat::protocol {

// Before a worker is ready, nobody waits for it.
void Coordinator::State::OnWorkerReady(Time now, const MemberState& worker) {
  if (!first_worker) first_worker = now;
  if (worker.member.state == Member::State::kStandby) return;
  AllReduce() ? groups.Join(now, worker.member, worker.process) : ShareLanes();
}

void Coordinator::State::FillPlaces(Time now) {
  if (standing_by == 0) return;
  uint32_t active = 0;
  for (const auto& [node, its] : members) {
    if (its.member.role == Role::kWorker && its.member.state == Member::State::kActive) ++active;
  }
  if (active >= config.workers) all_workers_came = true;
  if (!all_workers_came && (!first_worker || now - *first_worker < config.standby_wait)) return;
  for (; active < config.workers; ++active) {
    MemberState* const standby = NextStandby();
    if (standby == nullptr) return;
    const uint32_t index = LowestFreeIndex(Role::kWorker);
    standby->member.index = index;
    SetState(standby, Member::State::kActive);
    if (AllReduce()) groups.Join(now, standby->member, standby->process);
  }
}

Coordinator::State::MemberState* Coordinator::State::NextStandby() {
  for (auto& [node, its] : members) {
    const bool stands_by = its.member.role == Role::kWorker && its.member.state == Member::State::kStandby;
    if (stands_by && its.ready && !its.isolated) return &its;
  }
  return nullptr;
}

Status Coordinator::State::Drain(NodeId worker) {
  const auto at = members.find(worker);
  if (at == members.end()) return {Code::kNotFound, "node " + ToString(worker) + " is no member"};
  const Member& member = at->second.member;
  if (member.role != Role::kWorker) return {Code::kFailedPrecondition, Name(member) + " is no worker"};
  if (config.strategy.mpi) {
    return {Code::kFailedPrecondition,
            Name(member) + " cannot leave: MPI cannot continue without one of its processes"};
  }
  SetState(&at->second, Member::State::kDraining);
  return {};
}

void Coordinator::State::SetState(MemberState* member, Member::State state) {
  if (member->member.state == Member::State::kStandby) --standing_by;
  if (state == Member::State::kStandby) ++standing_by;
  member->member.state = state;
  view_changed = true;
}

Status Coordinator::Drain(NodeId worker) {
  return state_->Drain(worker);
}

}  // namespace leat::protocol
