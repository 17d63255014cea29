#include "protocol/coordinator/coordinator.h"

#include <utility>

#include "protocol/guards.h"
#include "protocol/heartbeats/heartbeats.h"
#include "protocol/members/admission.h"

namespace leat::protocol {

struct Coordinator::State {
  State(CoordinatorConfig c, RecoveredState restored) : config(std::move(c)) {
    succession.Restore(std::move(restored));
  }

  // The concerns, from the bottom to the top.
  CoordinatorConfig config;
  Outbox outbox{[this](View* view) { FillIn(view); }};
  Roster roster{config, &outbox};
  ReturningMembers returning{&roster};
  WorkerSlots slots{&roster};
  SlicePlacement placement{config, config.partitions.size(), &roster, &outbox};
  SliceMap& slices{placement.map()};
  SliceTransfers transfers{&placement, &roster, &outbox};
  Leases leases{config, &roster, &slices, &outbox};
  MemberGroups groups{&roster, &slices, &leases, &outbox};
  Checkpoints checkpoints{config, &transfers, &placement, &leases, &groups, &roster, &outbox};
  Predictions predictions{config, &leases.cursors(), &roster, &outbox};
  Scale scale{config, &placement, &transfers, &leases, &groups, &roster, &outbox};
  Concerns concerns{outbox, roster, returning,   slots,       placement, transfers,
                    leases, groups, checkpoints, predictions, scale};
  Succession succession{config, concerns};
  JobEnd end{&roster, &slices, &leases, &checkpoints, &predictions, &scale, &outbox};
  Heartbeats heartbeats{concerns, config.max_consecutive_rejected, &succession, &end};

  void FillIn(View* view) {
    roster.AddTo(view);
    view->slices = slices.Locations();
    predictions.AddTo(view);
    leases.ShareLanes();
  }

  // Does what follows from the input, and returns what is to be done.
  CoordinatorActions Finish(Time now) {
    if (!end.ended()) Advance(now);
    placement.JournalPlaced();
    return outbox.DrainActions(end.stopping() && !end.ended());
  }

  void Advance(Time now) {
    StartStream();
    for (const NodeId node : slots.Fill(now, scale.WantedWorkers())) {
      if (config.all_reduce()) groups.Join(now, roster.At(node));
    }
    predictions.Assign(returning.Awaits(Role::kFeed));
    heartbeats.PlaceSlices(now);
    const auto saved = [this] { return checkpoints.SavedSlices(); };
    if (!config.all_reduce()) transfers.Advance(now, !end.begun(), !checkpoints.preparing(), saved);
    checkpoints.Advance(now, !end.begun(), end.stop_requested());
    end.Advance(now);
    if (!end.begun()) scale.RecordPauseReached();
    scale.RecordBegun();
    outbox.RefreshView();
  }

  void StartStream() {
    if (!leases.cursors().started()) {
      const auto first = leases.cursors().FirstOffsets();
      if (!first) return;
      predictions.JournalGroups();
      leases.Start(*first);
    }
    leases.JournalPasses();
  }

  // Calls the request's `On`, and refuses a request that has none.
  void Dispatch(Time now, uint64_t call, const ControlRequest& request) {
    if (end.ended()) {
      const bool command = std::holds_alternative<AdminRequest>(request);
      return outbox.Refuse(call, command ? Code::kFailedPrecondition : Code::kAborted, "the job has ended");
    }
    const uint64_t term = TermOf(request);
    if (term != 0 && !SameRun(term, config.term)) return Dispatch(now, call, OfThisRun(request, config.term));
    if (!guards::CurrentTerm(config.term, term)) {
      return end.OnReplaced(
          Status(Code::kStale, "this coordinator, of term " + std::to_string(NumberOf(config.term)) +
                                   ", was replaced by one of term " + std::to_string(NumberOf(term))));
    }
    const auto handle = [&]<class Request>(const Request& one) {
      if constexpr (requires { heartbeats.Hear(now, one); }) {
        outbox.Answer(call, heartbeats.Hear(now, one));
      } else if constexpr (requires { On(now, call, one); }) {
        On(now, call, one);
      } else {
        outbox.Refuse(call, Code::kInvalidArgument, "this request is not handled by the coordinator");
      }
    };
    std::visit(handle, request);
  }

  void On(Time now, uint64_t call, const JoinRequest& request) {
    if (end.stopping()) return outbox.Answer(call, JoinReply{{Code::kAborted, "the job is over"}});
    Result<Admission> admitted = Admit(roster, request);
    if (!admitted.ok()) return outbox.Answer(call, JoinReply{admitted.status()});
    for (const NodeId node : admitted->former) heartbeats.Remove(now, node, Roster::Gone::kLost);
    roster.ForgetEvicted(request.process);
    const MemberState& member = roster.Add(now, std::move(admitted->member), admitted->index);
    if (member.Is(Role::kServer)) transfers.OnServersChanged();
    outbox.Answer(call, Welcome(config, member.member));
  }

  void On(Time, uint64_t call, const JobRequest& request) {
    outbox.Answer(call, DescribeJob(roster, request));
  }

  void On(Time now, uint64_t call, const KeepAlive& keep_alive) {
    outbox.Answer(call, roster.OnKeepAlive(now, keep_alive, end.stopping()));
  }

  void On(Time now, uint64_t call, const AdminRequest& request) {
    using Kind = AdminRequest::Kind;
    switch (request.kind) {
      case Kind::kCheckpoint:
        return checkpoints.OnCommand(now, call);
      case Kind::kStop:
        return end.OnStop(now, call);
      case Kind::kNodeLost:
        heartbeats.OnLost(now, request.node);
        return outbox.Answer(call, AdminReply{});
      case Kind::kContinue:
        return scale.OnContinue(now, call);
      case Kind::kDiscard:
        return end.OnDiscard(now, call);
      case Kind::kScale:
        return scale.OnScale(call, request, end.CheckNotBegun());
      case Kind::kDrain:
        return scale.OnDrain(now, call, request, end.CheckNotBegun());
      case Kind::kPause:
        return scale.OnPause(call, end.CheckNotBegun());
      case Kind::kGrant:
        return scale.OnGrant(now, call, request, end.CheckNotBegun());
    }
    outbox.Refuse(call, Code::kInvalidArgument, "unknown request");
  }

  CoordinatorStatus::Phase phase() const {
    using Phase = CoordinatorStatus::Phase;
    if (end.begun()) return end.ended() ? Phase::kEnded : Phase::kStopping;
    if (slices.ready()) return leases.cursors().Paused() || scale.paused() ? Phase::kPaused : Phase::kRunning;
    return config.all_reduce() ? Phase::kWaitingForWorkers : Phase::kWaitingForServers;
  }

  // The first reason, from the end of the job to its beginning.
  std::string WaitingFor() const {
    if (std::string why = end.WaitingFor(); !why.empty()) return why;
    if (std::string why = predictions.WaitingFor(); !why.empty()) return why;
    if (!returning.awaited().empty() && !slices.ready())
      return "members of the former coordinator: " + returning.Names();
    return config.all_reduce() || end.stopping() ? std::string() : roster.LostServers();
  }
};

// ---- public interface

Coordinator::Coordinator(CoordinatorConfig config, RecoveredState restored)
    : state_(std::make_unique<State>(std::move(config), std::move(restored))) {}

Coordinator::~Coordinator() = default;

CoordinatorActions Coordinator::OnRequest(Time now, uint64_t call, const ControlRequest& request) {
  state_->Dispatch(now, call, request);
  return state_->Finish(now);
}

CoordinatorActions Coordinator::OnStream(Time now, const std::vector<StreamRange>& ranges) {
  for (const StreamRange& range : ranges) {
    const Status good = state_->leases.OnRange(now, range);
    if (!good.ok() && !state_->end.stopping()) state_->end.StopMembers(now, good);
  }
  return state_->Finish(now);
}

CoordinatorActions Coordinator::OnNodeLost(Time now, NodeId node) {
  state_->heartbeats.OnLost(now, node);
  return state_->Finish(now);
}

CoordinatorActions Coordinator::OnCheckpointPrepared(Time now, uint64_t id, Result<CheckpointOrder> order) {
  state_->checkpoints.OnPrepared(now, id, order, state_->end.stop_requested());
  return state_->Finish(now);
}

CoordinatorActions Coordinator::OnManifestCommitted(Time now, uint64_t id, const Status& status) {
  if (const Manifest* oldest = state_->checkpoints.OnCommitted(now, id, status)) {
    const std::vector<Position> needed = state_->predictions.Needed(oldest->watermark);
    state_->leases.cursors().ForgetMarks(needed);
    state_->outbox.Request(DropCheckpoints{oldest->id, needed});
  }
  return state_->Finish(now);
}

CoordinatorActions Coordinator::OnCheckpointVerified(Time now, uint64_t id, const Status& status) {
  const Status good = state_->checkpoints.OnVerified(id, status, state_->end.stopping());
  if (!good.ok()) state_->end.StopMembers(now, good);
  return state_->Finish(now);
}

CoordinatorActions Coordinator::OnPublishers(Time now, const std::vector<PublisherReport>& reports) {
  if (state_->end.ended()) return {};
  state_->heartbeats.OnPublishers(now, NodeId(), reports);
  return state_->Finish(now);
}

std::vector<PublisherOrder> Coordinator::publisher_orders() const {
  return state_->predictions.OrdersFor(NodeId());
}

std::vector<LabelMarksWanted> Coordinator::label_marks() const {
  return state_->leases.cursors().MarksWanted();
}

CoordinatorActions Coordinator::OnDrift(Time now) {
  if (state_->end.ended()) return {};
  state_->leases.RaiseRate();
  return state_->Finish(now);
}

CoordinatorActions Coordinator::OnReplaced(const Status& why) {
  if (state_->end.ended()) return {};
  state_->end.OnReplaced(why);
  return state_->Finish(Time(0));  // it has ended, so nothing is due
}

Status Coordinator::Drain(Time now, NodeId node) {
  return state_->scale.Drain(now, node);
}

Status Coordinator::DrainServer(Time now, NodeId server) {
  return state_->transfers.DrainServer(now, server);
}

Status Coordinator::CanScaleServers(uint32_t servers) const {
  return state_->placement.CanHave(servers);
}

void Coordinator::SetChosen(uint32_t workers) {
  state_->scale.SetChosen(workers);
}

CoordinatorActions Coordinator::OnTimer(Time now) {
  if (state_->end.ended()) return {};
  state_->heartbeats.Sweep(now);
  return state_->Finish(now);
}

Time Coordinator::next_timer() const {
  return state_->end.ended() ? Time::max() : state_->heartbeats.next_sweep();
}

const std::vector<MemberJoined>& Coordinator::taken_over() const {
  return state_->returning.taken_over();
}

CoordinatorStatus Coordinator::status() const {
  const State& s = *state_;
  CoordinatorStatus status{s.roster.rows(), s.placement.rows(), s.leases.rows(), s.checkpoints.rows(),
                           s.scale.rows()};
  status.phase = s.phase();
  status.term = s.config.term;
  status.view = *s.outbox.view();
  status.events = s.slices.Events();
  status.watermark = s.slices.Watermarks();
  status.step = s.slices.Version();
  status.finished = s.end.Finished();
  status.waiting_for = s.WaitingFor();
  status.predictions = s.predictions.Progress(status.watermark);
  status.overdue_leases += s.groups.overdue();
  for (const auto& pair : s.groups.Unreachable()) status.unreachable.push_back(pair);
  s.transfers.AddTo(&status.moves);
  s.placement.AddWarnings(&status.misplaced);
  return status;
}

}  // namespace leat::protocol
