// Workers that come and go while the job runs, and members that are to leave.
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
  // Counts them only if there may be enough: large clusters would take long to start.
  if (all_workers_came || members.size() < Places()) return;
  all_workers_came = Staying(Role::kWorker) >= Places();
}

void Coordinator::State::FillPlaces(Time now) {
  if (standing_by == 0) return;
  if (!all_workers_came && (!first_worker || now - *first_worker < config.standby_wait)) return;
  for (uint32_t active = Staying(Role::kWorker); active < Places(); ++active) {
    MemberState* const standby = NextStandby();
    if (standby == nullptr) return;
    const uint32_t index = LowestFreeIndex(Role::kWorker);
    standby->member.index = index;
    SetState(standby, Member::State::kActive);
    if (AllReduce()) groups.Join(now, standby->member, standby->process);
  }
}

uint32_t Coordinator::State::Places() const {
  const uint32_t wanted = scale.workers.fixed() ? scale.workers.least
                                                : std::clamp(chosen, scale.workers.least, scale.workers.most);
  return grant ? std::min(wanted, grant->workers) : wanted;
}

uint32_t Coordinator::State::Staying(Role role) const {
  return static_cast<uint32_t>(std::ranges::count_if(members, [role](const auto& entry) {
    const Member& member = entry.second.member;
    return member.role == role && member.state == Member::State::kActive;
  }));
}

// Standbys on hosts of the class for workers come first.
Coordinator::State::MemberState* Coordinator::State::NextStandby() {
  MemberState* other = nullptr;
  for (auto& [node, its] : members) {
    const bool stands_by = its.member.role == Role::kWorker && its.member.state == Member::State::kStandby;
    if (!stands_by || !its.ready || its.isolated) continue;
    const std::string& wanted = config.topology.worker_class;
    if (wanted.empty() || its.place.host_class == wanted) return &its;
    if (other == nullptr) other = &its;
  }
  return other;
}

Status Coordinator::State::Drain(Time now, NodeId node) {
  const auto at = members.find(node);
  if (at == members.end()) return {Code::kNotFound, "node " + ToString(node) + " is no member"};
  const Member& member = at->second.member;
  if (member.state == Member::State::kDraining) return {};
  if (member.role == Role::kServer) return DrainServer(now, node);
  if (member.role == Role::kBots || member.role == Role::kCoordinator)
    return {Code::kFailedPrecondition, Name(member) + " has nothing to hand over; end its process"};
  if (member.role == Role::kWorker && config.strategy.mpi) {
    return {Code::kFailedPrecondition,
            "the workers reduce by MPI: if one leaves, the job ends; leat stop ends it with a checkpoint"};
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

Status Coordinator::Drain(Time now, NodeId node) {
  return state_->Drain(now, node);
}

}  // namespace leat::protocol
