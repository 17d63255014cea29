// Workers that come and go while the job runs.
#include <algorithm>
#include <string>

#include "protocol/coordinator/coordinator_state.h"

namespace leat::protocol {

// Before a worker is ready, nobody waits for it.
void Coordinator::State::OnWorkerReady(Time now, const MemberState& worker) {
  NoteWorkers(now);
  if (worker.member.state == Member::State::kStandby) return;
  AllReduce() ? groups.Join(now, worker.member, worker.process) : ShareLanes();
}

void Coordinator::State::NoteWorkers(Time now) {
  if (!first_worker) first_worker = now;
  if (!all_workers_came) all_workers_came = ActiveWorkers() >= config.workers;
}

void Coordinator::State::FillPlaces(Time now) {
  if (standing_by == 0) return;
  if (!all_workers_came && (!first_worker || now - *first_worker < config.standby_wait)) return;
  for (uint32_t active = ActiveWorkers(); active < config.workers; ++active) {
    MemberState* const standby = NextStandby();
    if (standby == nullptr) return;
    const uint32_t index = LowestFreeIndex(Role::kWorker);
    standby->member.index = index;
    SetState(standby, Member::State::kActive);
    if (AllReduce()) groups.Join(now, standby->member, standby->process);
  }
}

uint32_t Coordinator::State::ActiveWorkers() const {
  return static_cast<uint32_t>(std::ranges::count_if(members, [](const auto& entry) {
    const Member& member = entry.second.member;
    return member.role == Role::kWorker && member.state == Member::State::kActive;
  }));
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
  if (members.contains(member->member.node)) JournalMember(*member);
}

Status Coordinator::Drain(NodeId worker) {
  return state_->Drain(worker);
}

}  // namespace leat::protocol
