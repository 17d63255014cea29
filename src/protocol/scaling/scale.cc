#include "protocol/scaling/scale.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace leat::protocol {

Scale::Scale(const ScaleSettings& settings, SlicePlacement* placement, SliceTransfers* transfers,
             Leases* leases, MemberGroups* groups, Roster* roster, Outbox* outbox)
    : settings_(settings),
      placement_(*placement),
      transfers_(*transfers),
      leases_(*leases),
      groups_(*groups),
      roster_(*roster),
      outbox_(*outbox),
      scale_{.workers = settings.wanted_workers.valid()
                            ? settings.wanted_workers
                            : WorkerRange{roster->settings().workers, roster->settings().workers},
             .servers = placement->settings().servers} {}

uint32_t Scale::WantedWorkers() const {
  const WorkerRange& range = scale_.workers;
  const uint32_t wanted = range.fixed() ? range.least : std::clamp(chosen_, range.least, range.most);
  return grant_ ? std::min(wanted, grant_->workers) : wanted;
}

void Scale::JournalChange(const ScaleSet& before) {
  if (scale_ != before) outbox_.Journal(scale_);
}

// ---- from a former coordinator

void Scale::Restore(const ScaleSet& former, bool same_run) {
  const bool mpi = roster_.settings().strategy.mpi;
  if (settings_.keep_scale) {
    scale_ = former;
    placement_.Want(scale_.servers);
    if (!mpi) groups_.groups().WaitFor(WantedWorkers());
  } else {
    scale_.paused = former.paused;
    scale_.begun = former.begun;
  }
  // Each run counts its events anew, and with MPI a resumption is another run.
  scale_.pause_reached = former.pause_reached && same_run && !mpi;
  if (scale_.pause_reached) leases_.cursors().PauseAt(0);
  // The next coordinator may keep them.
  JournalChange(former);
}

void Scale::RestorePause(bool same_run) {
  if (scale_.paused)
    leases_.rounds().Suspend(Suspension::kPause, same_run ? scale_.begun : placement_.map().Version());
}

// ---- commands

Status Scale::CheckWorkers(const WorkerRange& workers) const {
  if (!workers.valid()) {
    return {Code::kInvalidArgument,
            "a job has 1 to " + std::to_string(WorkerRange::kMost) + " workers, not " + ToString(workers)};
  }
  if (roster_.settings().all_reduce() && workers.least < 2)
    return {Code::kInvalidArgument, "allreduce needs 2 or more workers, not " + ToString(workers)};
  return {};
}

void Scale::OnScale(uint64_t call, const AdminRequest& request, Status good) {
  const MemberSettings& job = roster_.settings();
  if (good.ok() && job.strategy.mpi) {
    good = {Code::kFailedPrecondition, "the workers reduce by MPI, and mpirun has started all " +
                                           std::to_string(job.workers) + " of them; no others can join"};
  }
  if (good.ok() && request.workers) good = CheckWorkers(*request.workers);
  if (good.ok() && request.servers) good = placement_.CanHave(*request.servers);
  if (good.ok()) {
    const ScaleSet before = scale_;
    scale_.workers = request.workers.value_or(scale_.workers);
    scale_.servers = request.servers.value_or(scale_.servers);
    JournalChange(before);
    placement_.Want(scale_.servers);
    groups_.groups().WaitFor(WantedWorkers());
  }
  outbox_.Answer(call, AdminReply{good});
}

void Scale::OnDrain(Time now, uint64_t call, const AdminRequest& request, Status good) {
  // Workers that stand by have indexes of their own.
  const auto& members = roster_.members();
  const auto named = std::ranges::find_if(members, [&request](const auto& entry) {
    const MemberState& member = entry.second;
    return member.Is(request.role) && member.member.index == request.index && !member.stands_by();
  });
  const bool drains = request.role == Role::kWorker || request.role == Role::kServer ||
                      request.role == Role::kFeed || request.role == Role::kServe;
  if (good.ok() && (named == members.end() || !drains)) {
    good = {Code::kNotFound, "the job has no " + std::string(Name(request.role)) + " " +
                                 std::to_string(request.index) + "; leat status shows its members"};
  }
  const bool again = good.ok() && named->second.draining();
  if (!good.ok() || again) return outbox_.Answer(call, AdminReply{good});
  good = Drain(now, named->first);
  if (good.ok()) WantFewer(request.role);
  outbox_.Answer(call, AdminReply{good});
}

Status Scale::Drain(Time now, NodeId node) {
  const MemberState* const state = roster_.Find(node);
  if (state == nullptr) return {Code::kNotFound, "node " + ToString(node) + " is no member"};
  const Member& member = state->member;
  if (state->draining()) return {};
  if (member.role == Role::kServer) return transfers_.DrainServer(now, node);
  if (member.role == Role::kBots || member.role == Role::kCoordinator)
    return {Code::kFailedPrecondition, Name(member) + " has nothing to hand over; end its process"};
  if (member.role == Role::kWorker && roster_.settings().strategy.mpi) {
    return {Code::kFailedPrecondition,
            "the workers reduce by MPI: if one leaves, the job ends; leat stop ends it with a checkpoint"};
  }
  roster_.SetState(node, Member::State::kDraining);
  return {};
}

// Otherwise another member would be started for one that was drained. A worker that stands by takes its
// place.
void Scale::WantFewer(Role role) {
  if (role == Role::kWorker && roster_.NextStandby() != nullptr) return;
  const ScaleSet before = scale_;
  if (role == Role::kWorker && scale_.workers.fixed() && roster_.Staying(role) < scale_.workers.least) {
    const uint32_t workers = std::max(scale_.workers.least - 1, roster_.settings().all_reduce() ? 2u : 1u);
    scale_.workers = {workers, workers};
  }
  if (role == Role::kServer && roster_.Staying(role) < scale_.servers) --scale_.servers;
  JournalChange(before);
}

// A pool repeats its grant, so members that come back beyond it are told to leave, too.
void Scale::OnGrant(Time now, uint64_t call, const AdminRequest& request, Status good) {
  if (good.ok() && !settings_.pool)
    good = {Code::kFailedPrecondition, "the job was not started by a pool; a job has one executor"};
  if (good.ok() && (!request.workers || !request.servers || request.workers->most == 0))
    good = {Code::kInvalidArgument, "a grant needs a number of workers, at least 1, and one of servers"};
  if (good.ok()) {
    grant_ = ScaleRows::Grant{request.workers->most, *request.servers};
    ReleaseBeyondGrant(now, Role::kWorker, grant_->workers);
    ReleaseBeyondGrant(now, Role::kServer, grant_->servers);
    groups_.groups().WaitFor(WantedWorkers());
  }
  outbox_.Answer(call, AdminReply{good});
}

// Asks the members with the highest indexes to leave. A server that cannot, for now, is asked again with the
// next grant. A member that has become silent may have died, and its replacement may be here already.
void Scale::ReleaseBeyondGrant(Time now, Role role, uint32_t granted) {
  std::vector<const Member*> staying;
  for (const auto& [node, member] : roster_.members()) {
    const bool silent = now - member.last_seen > 3 * roster_.settings().heartbeat_interval / 2;
    if (member.Is(role) && member.active() && !silent) staying.push_back(&member.member);
  }
  std::ranges::sort(staying, {}, &Member::index);
  for (; staying.size() > granted; staying.pop_back()) {
    if (!Drain(now, staying.back()->node).ok()) return;
  }
}

void Scale::OnPause(uint64_t call, const Status& good) {
  if (!good.ok()) return outbox_.Answer(call, AdminReply{good});
  if (!scale_.paused) {
    scale_.paused = true;
    scale_.begun = leases_.rounds().sequence().Untouched();
    leases_.rounds().Suspend(Suspension::kPause, scale_.begun);
    outbox_.Journal(scale_);
  }
  outbox_.Answer(call, AdminReply{});
}

void Scale::OnContinue(Time now, uint64_t call) {
  leases_.cursors().PauseAt(std::nullopt);
  Continue(now);
  outbox_.Answer(call, AdminReply{});
}

// ---- pauses

void Scale::Continue(Time now) {
  if (!scale_.paused && !scale_.pause_reached) return;
  if (std::exchange(scale_.paused, false)) leases_.rounds().Resume(now, Suspension::kPause);
  scale_.begun = 0;
  scale_.pause_reached = false;
  outbox_.Journal(scale_);
}

void Scale::RecordPauseReached() {
  if (!leases_.cursors().Paused() || scale_.pause_reached) return;
  scale_.pause_reached = true;
  outbox_.Journal(scale_);
}

void Scale::RecordBegun() {
  const auto from = leases_.rounds().suspended_from(Suspension::kPause);
  if (!scale_.paused || from == scale_.begun) return;
  scale_.begun = *from;
  outbox_.Journal(scale_);
}

ScaleRows Scale::rows() const {
  ScaleRows rows;
  rows.wanted.workers = scale_.workers;
  rows.wanted.servers = scale_.servers;
  rows.grant = grant_;
  return rows;
}

}  // namespace leat::protocol
