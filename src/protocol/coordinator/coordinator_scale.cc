// Commands that change how many members a job has, and whether it trains.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "protocol/coordinator/coordinator_state.h"

namespace leat::protocol {

Status Coordinator::State::CheckNotEnding() const {
  if (ending == Ending::kNone) return {};
  return {Code::kFailedPrecondition, "the job is ending"};
}

Status Coordinator::State::CheckWorkers(const WorkerRange& workers) const {
  if (!workers.valid()) {
    return {Code::kInvalidArgument,
            "a job has 1 to " + std::to_string(WorkerRange::kMost) + " workers, not " + ToString(workers)};
  }
  if (AllReduce() && workers.least < 2)
    return {Code::kInvalidArgument, "allreduce needs 2 or more workers, not " + ToString(workers)};
  return {};
}

void Coordinator::State::RestoreScale(const ScaleSet& former) {
  if (config.keep_scale) {
    scale = former;
    AwaitFewerServers();
    if (!config.strategy.mpi) groups.WaitFor(Places());
  } else {
    scale.paused = former.paused;
    scale.begun = former.begun;
  }
  // Each run counts its events anew, and with MPI a resumption is another run.
  scale.pause_reached = former.pause_reached && config.take_over && !config.strategy.mpi;
  if (scale.pause_reached) cursors.PauseAt(0);
  // The next coordinator may keep them.
  if (scale != former) journals.push_back({scale});
}

// Slices are placed on those that are wanted: further ones may never come.
void Coordinator::State::AwaitFewerServers() {
  if (!slices.placed()) config.servers = std::min(config.servers, std::max(scale.servers, 1u));
}

// The placement names servers by index, also some that are not wanted any more, or are in another site.
Placement Coordinator::State::PlacementOn(const std::vector<NodeId>& servers) const {
  Placement placement = config.placement;
  placement.exclude.clear();
  placement.weights.clear();
  for (uint32_t i = 0; i < servers.size(); ++i) {
    const MemberState& member = members.at(servers[i]);
    const double weight = WeightOf(member);
    if (std::ranges::count(config.placement.exclude, member.member.index) > 0) placement.exclude.push_back(i);
    if (!config.placement.weights.empty()) placement.weights.push_back(weight);
  }
  // If no other server is there, they hold slices all the same.
  if (placement.exclude.size() == servers.size()) placement.exclude.clear();
  const bool weightless = std::ranges::all_of(placement.weights, [](double weight) { return weight <= 0; });
  if (weightless) placement.weights.assign(placement.weights.size(), 1);
  return placement;
}

void Coordinator::State::OnScale(uint64_t call, const AdminRequest& request) {
  Status good = CheckNotEnding();
  if (good.ok() && config.strategy.mpi) {
    good = {Code::kFailedPrecondition, "the workers reduce by MPI, and mpirun has started all " +
                                           std::to_string(config.workers) + " of them; no others can join"};
  }
  if (good.ok() && request.workers) good = CheckWorkers(*request.workers);
  if (good.ok() && request.servers) good = CanScaleServers(*request.servers);
  if (good.ok()) {
    const ScaleSet before = scale;
    scale.workers = request.workers.value_or(scale.workers);
    scale.servers = request.servers.value_or(scale.servers);
    if (scale != before) journals.push_back({scale});
    AwaitFewerServers();
    groups.WaitFor(Places());
  }
  Answer(call, AdminReply{good});
}

void Coordinator::State::OnDrain(Time now, uint64_t call, const AdminRequest& request) {
  // Workers that stand by have indexes of their own.
  const auto named = std::ranges::find_if(members, [&request](const auto& entry) {
    const Member& member = entry.second.member;
    return member.role == request.role && member.index == request.index &&
           member.state != Member::State::kStandby;
  });
  const bool drains = request.role == Role::kWorker || request.role == Role::kServer ||
                      request.role == Role::kFeed || request.role == Role::kServe;
  Status good = CheckNotEnding();
  if (good.ok() && (named == members.end() || !drains)) {
    good = {Code::kNotFound, "the job has no " + std::string(Name(request.role)) + " " +
                                 std::to_string(request.index) + "; leat status shows its members"};
  }
  const bool again = good.ok() && named->second.member.state == Member::State::kDraining;
  if (!good.ok() || again) return Answer(call, AdminReply{good});
  good = Drain(now, named->first);
  if (good.ok()) WantFewer(request.role);
  Answer(call, AdminReply{good});
}

// Otherwise another member would be started for one that was drained. A worker that stands by takes its
// place.
void Coordinator::State::WantFewer(Role role) {
  if (role == Role::kWorker && NextStandby() != nullptr) return;
  const ScaleSet before = scale;
  if (role == Role::kWorker && scale.workers.fixed() && Staying(role) < scale.workers.least) {
    const uint32_t workers = std::max(scale.workers.least - 1, AllReduce() ? 2u : 1u);
    scale.workers = {workers, workers};
  }
  if (role == Role::kServer && Staying(role) < scale.servers) --scale.servers;
  if (scale != before) journals.push_back({scale});
}

// A pool repeats its grant, so members that come back beyond it are told to leave, too.
void Coordinator::State::OnGrant(Time now, uint64_t call, const AdminRequest& request) {
  Status good = CheckNotEnding();
  if (good.ok() && !config.pool)
    good = {Code::kFailedPrecondition, "the job was not started by a pool; a job has one executor"};
  if (good.ok() && (!request.workers || !request.servers || request.workers->most == 0))
    good = {Code::kInvalidArgument, "a grant needs a number of workers, at least 1, and one of servers"};
  if (good.ok()) {
    grant = CoordinatorStatus::Grant{request.workers->most, *request.servers};
    ReleaseBeyondGrant(now, Role::kWorker, grant->workers);
    ReleaseBeyondGrant(now, Role::kServer, grant->servers);
    groups.WaitFor(Places());
  }
  Answer(call, AdminReply{good});
}

// Asks the members with the highest indexes to leave. A server that cannot, for now, is asked again with the
// next grant. A member that has become silent may have died, and its replacement may be here already.
void Coordinator::State::ReleaseBeyondGrant(Time now, Role role, uint32_t granted) {
  std::vector<const Member*> staying;
  for (const auto& [node, its] : members) {
    const bool silent = now - its.last_seen > 3 * config.heartbeat_interval / 2;
    if (its.member.role == role && its.member.state == Member::State::kActive && !silent)
      staying.push_back(&its.member);
  }
  std::ranges::sort(staying, {}, &Member::index);
  for (; staying.size() > granted; staying.pop_back()) {
    if (!Drain(now, staying.back()->node).ok()) return;
  }
}

void Coordinator::State::OnPause(uint64_t call) {
  if (const Status good = CheckNotEnding(); !good.ok()) return Answer(call, AdminReply{good});
  if (!scale.paused) {
    scale.paused = true;
    scale.begun = rounds.Untouched();
    rounds.Pause(scale.begun);
    journals.push_back({scale});
  }
  Answer(call, AdminReply{});
}

void Coordinator::State::Continue(Time now) {
  if (!scale.paused && !scale.pause_reached) return;
  if (std::exchange(scale.paused, false)) rounds.Continue(now);
  scale.begun = 0;
  scale.pause_reached = false;
  journals.push_back({scale});
}

void Coordinator::State::NotePauseReached() {
  if (!cursors.Paused() || scale.pause_reached || ending != Ending::kNone) return;
  scale.pause_reached = true;
  journals.push_back({scale});
}

// Slices have gone back to an older step, and nothing is begun from there.
void Coordinator::State::NoteBegun() {
  if (!scale.paused || rounds.paused_from() == scale.begun) return;
  scale.begun = *rounds.paused_from();
  journals.push_back({scale});
}

void Coordinator::SetChosen(uint32_t workers) {
  state_->chosen = workers;
}

}  // namespace leat::protocol
