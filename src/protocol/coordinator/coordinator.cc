#include "protocol/coordinator/coordinator.h"

#include <utility>

#include "protocol/guards.h"

namespace leat::protocol {

CoordinatorActions Coordinator::OnRequest(Time now, uint64_t call, const ControlRequest& request) {
  Dispatch(now, call, request);
  return Finish(now);
}

CoordinatorActions Coordinator::OnStream(Time now, const std::vector<StreamRange>& ranges) {
  for (const StreamRange& range : ranges) {
    const Status good = leases_.OnRange(now, range);
    if (!good.ok() && !end_.stopping()) end_.StopMembers(now, good);
  }
  return Finish(now);
}

CoordinatorActions Coordinator::OnNodeLost(Time now, NodeId node) {
  heartbeats_.OnLost(now, node);
  return Finish(now);
}

CoordinatorActions Coordinator::OnCheckpointPrepared(Time now, uint64_t id, Result<CheckpointOrder> order) {
  checkpoints_.OnPrepared(now, id, order, end_.stop_requested());
  return Finish(now);
}

CoordinatorActions Coordinator::OnManifestCommitted(Time now, uint64_t id, const Status& status) {
  if (const Manifest* oldest = checkpoints_.OnCommitted(now, id, status)) {
    const std::vector<Position> needed = predictions_.Needed(oldest->watermark);
    leases_.cursors().ForgetMarks(needed);
    outbox_.Request(DropCheckpoints{oldest->id, needed});
  }
  return Finish(now);
}

CoordinatorActions Coordinator::OnCheckpointVerified(Time now, uint64_t id, const Status& status) {
  const Status good = checkpoints_.OnVerified(id, status, end_.stopping());
  if (!good.ok()) end_.StopMembers(now, good);
  return Finish(now);
}

CoordinatorActions Coordinator::OnPublishers(Time now, const std::vector<PublisherReport>& reports) {
  if (end_.ended()) return {};
  heartbeats_.OnPublishers(now, NodeId(), reports);
  return Finish(now);
}

CoordinatorActions Coordinator::OnDrift(Time now) {
  if (end_.ended()) return {};
  leases_.RaiseRate();
  return Finish(now);
}

CoordinatorActions Coordinator::OnReplaced(const Status& why) {
  if (end_.ended()) return {};
  end_.OnReplaced(why);
  return Finish(Time(0));  // it has ended, so nothing is due
}

CoordinatorActions Coordinator::OnTimer(Time now) {
  if (end_.ended()) return {};
  heartbeats_.Sweep(now);
  return Finish(now);
}

CoordinatorStatus Coordinator::status() const {
  CoordinatorStatus status{roster_.rows(), placement_.rows(), leases_.rows(), checkpoints_.rows(),
                           scale_.rows()};
  status.phase = phase();
  status.term = config_.term;
  status.view = *outbox_.view();
  status.events = slices_.Events();
  status.watermark = slices_.Watermarks();
  status.step = slices_.Version();
  status.finished = end_.Finished();
  status.waiting_for = WaitingFor();
  status.predictions = predictions_.Progress(status.watermark);
  status.overdue_leases += groups_.overdue();
  for (const auto& pair : groups_.Unreachable()) status.unreachable.push_back(pair);
  transfers_.AddTo(&status.moves);
  placement_.AddWarnings(&status.misplaced);
  return status;
}

// ---- consequences of an input

void Coordinator::FillIn(View* view) {
  roster_.AddTo(view);
  view->slices = slices_.Locations();
  predictions_.AddTo(view);
  leases_.ShareLanes();
}

CoordinatorActions Coordinator::Finish(Time now) {
  if (!end_.ended()) Advance(now);
  placement_.JournalPlaced();
  return outbox_.DrainActions(end_.stopping() && !end_.ended());
}

void Coordinator::Advance(Time now) {
  StartStream();
  for (const NodeId node : slots_.Fill(now, scale_.WantedWorkers())) {
    if (config_.all_reduce()) groups_.Join(now, roster_.At(node));
  }
  predictions_.Assign(returning_.Awaits(Role::kFeed));
  heartbeats_.PlaceSlices(now);
  const auto saved = [this] { return checkpoints_.SavedSlices(); };
  if (!config_.all_reduce()) transfers_.Advance(now, !end_.begun(), !checkpoints_.preparing(), saved);
  checkpoints_.Advance(now, !end_.begun(), end_.stop_requested());
  end_.Advance(now);
  if (!end_.begun()) scale_.RecordPauseReached();
  scale_.RecordBegun();
  outbox_.RefreshView();
}

void Coordinator::StartStream() {
  if (!leases_.cursors().started()) {
    const auto first = leases_.cursors().FirstOffsets();
    if (!first) return;
    predictions_.JournalGroups();
    leases_.Start(*first);
  }
  leases_.JournalPasses();
}

void Coordinator::Dispatch(Time now, uint64_t call, const ControlRequest& request) {
  if (end_.ended()) {
    const bool command = std::holds_alternative<AdminRequest>(request);
    return outbox_.Refuse(call, command ? Code::kFailedPrecondition : Code::kAborted, "the job has ended");
  }
  const uint64_t term = TermOf(request);
  if (term != 0 && !SameRun(term, config_.term)) return Dispatch(now, call, OfThisRun(request, config_.term));
  if (!guards::CurrentTerm(config_.term, term)) {
    return end_.OnReplaced(
        Status(Code::kStale, "this coordinator, of term " + std::to_string(NumberOf(config_.term)) +
                                 ", was replaced by one of term " + std::to_string(NumberOf(term))));
  }
  const auto handle = [&]<class Request>(const Request& one) {
    if constexpr (requires { heartbeats_.Hear(now, one); }) {
      outbox_.Answer(call, heartbeats_.Hear(now, one));
    } else if constexpr (requires { On(now, call, one); }) {
      On(now, call, one);
    } else {
      outbox_.Refuse(call, Code::kInvalidArgument, "this request is not handled by the coordinator");
    }
  };
  std::visit(handle, request);
}

void Coordinator::On(Time now, uint64_t call, const JoinRequest& request) {
  if (end_.stopping()) return outbox_.Answer(call, JoinReply{{Code::kAborted, "the job is over"}});
  Result<Admission> admitted = Admit(roster_, request);
  if (!admitted.ok()) return outbox_.Answer(call, JoinReply{admitted.status()});
  for (const NodeId node : admitted->former) heartbeats_.Remove(now, node, Roster::Gone::kLost);
  roster_.ForgetEvicted(request.process);
  const MemberState& member = roster_.Add(now, std::move(admitted->member), admitted->index);
  if (member.Is(Role::kServer)) transfers_.OnServersChanged();
  outbox_.Answer(call, Welcome(config_, member.member));
}

void Coordinator::On(Time now, uint64_t call, const AdminRequest& request) {
  using Kind = AdminRequest::Kind;
  switch (request.kind) {
    case Kind::kCheckpoint:
      return checkpoints_.OnCommand(now, call);
    case Kind::kStop:
      return end_.OnStop(now, call);
    case Kind::kNodeLost:
      heartbeats_.OnLost(now, request.node);
      return outbox_.Answer(call, AdminReply{});
    case Kind::kContinue:
      return scale_.OnContinue(now, call);
    case Kind::kDiscard:
      return end_.OnDiscard(now, call);
    case Kind::kScale:
      return scale_.OnScale(call, request, end_.CheckNotBegun());
    case Kind::kDrain:
      return scale_.OnDrain(now, call, request, end_.CheckNotBegun());
    case Kind::kPause:
      return scale_.OnPause(call, end_.CheckNotBegun());
    case Kind::kGrant:
      return scale_.OnGrant(now, call, request, end_.CheckNotBegun());
  }
  outbox_.Refuse(call, Code::kInvalidArgument, "unknown request");
}

CoordinatorStatus::Phase Coordinator::phase() const {
  using Phase = CoordinatorStatus::Phase;
  if (end_.begun()) return end_.ended() ? Phase::kEnded : Phase::kStopping;
  if (slices_.ready())
    return leases_.cursors().Paused() || scale_.paused() ? Phase::kPaused : Phase::kRunning;
  return config_.all_reduce() ? Phase::kWaitingForWorkers : Phase::kWaitingForServers;
}

std::string Coordinator::WaitingFor() const {
  if (std::string why = end_.WaitingFor(); !why.empty()) return why;
  if (std::string why = predictions_.WaitingFor(); !why.empty()) return why;
  if (!returning_.awaited().empty() && !slices_.ready())
    return "members of the former coordinator: " + returning_.Names();
  return config_.all_reduce() || end_.stopping() ? std::string() : roster_.LostServers();
}

}  // namespace leat::protocol
