#include "protocol/coordinator/coordinator.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "protocol/coordinator/coordinator_state.h"
#include "protocol/guards.h"

namespace leat::protocol {

namespace {

constexpr uint64_t kIdBlock = 4096;
constexpr uint64_t kNodeBlock = 64;
// How long the end of the job waits for workers to end their leases, and for members to hear of it.
constexpr Duration kEndingWait = std::chrono::seconds(5);

void CheckManifest(const Manifest& manifest, size_t slices, size_t partitions) {
  if (manifest.watermark.size() != partitions) {
    throw std::invalid_argument("checkpoint " + std::to_string(manifest.id) + " has " +
                                std::to_string(manifest.watermark.size()) + " partitions; the stream has " +
                                std::to_string(partitions));
  }
  std::vector<int> copies(slices, 0);
  for (const ManifestShard& shard : manifest.shards) {
    for (const SliceIncarnation& incarnation : shard.slices) {
      if (incarnation.slice.value >= slices || ++copies[incarnation.slice.value] > 1) {
        throw std::invalid_argument("checkpoint " + std::to_string(manifest.id) + " has slice " +
                                    ToString(incarnation.slice) +
                                    " twice, or the job does not have it: " + shard.file);
      }
    }
  }
  const auto lacking = std::find(copies.begin(), copies.end(), 0);
  if (lacking != copies.end()) {
    throw std::invalid_argument("checkpoint " + std::to_string(manifest.id) + " lacks slice " +
                                std::to_string(lacking - copies.begin()));
  }
}

CoordinatorConfig WithInterval(CoordinatorConfig config) {
  config.leases.heartbeat_interval = config.heartbeat_interval;
  return config;
}

}  // namespace

Coordinator::State::State(CoordinatorConfig c, RecoveredState restored)
    : config(WithInterval(std::move(c))),
      slices(config.table, config.partitions.size(), [this] { return Incarnation(NextId()); }),
      cursors(config.cuts, config.partitions.size(), config.tail_wait, config.late_labels),
      splits(&cursors, config.leases),
      rounds(&cursors, config.strategy, config.open_steps, config.lane_wait, config.tail_wait, config.leases),
      publications(&cursors, config.max_unpublished, config.publishing_groups),
      traffic(config.table.slices.size()),
      scale{.workers = config.wanted_workers.valid() ? config.wanted_workers
                                                     : WorkerRange{config.workers, config.workers},
            .servers = config.servers},
      groups({.workers = config.workers,
              .mpi = config.strategy.mpi,
              .mpi_silence = config.heartbeat_timeout + 4 * BusyInterval(config.heartbeat_interval)}),
      member_pace(config.leases) {
  for (size_t p = 0; p < config.partitions.size(); ++p) {
    if (config.partitions[p] != p) throw std::invalid_argument("partitions are not 0, 1, … in order");
  }
  if (config.table.slices.empty()) throw std::invalid_argument("the model has no variables");
  if (config.partitions.empty()) throw std::invalid_argument("the stream has no partitions");
  if (config.late_labels && config.cuts.epochs > 1) {
    throw std::invalid_argument("late labels allow one pass over the stream, not " +
                                std::to_string(config.cuts.epochs));
  }
  if (config.pause_at > 0) cursors.PauseAt(config.pause_at);
  splits.SetPartitionPlaces(config.partition_places);

  std::vector<Cut> cuts;
  std::vector<RoundMade> made_rounds;
  std::optional<std::vector<Position>> start;
  std::optional<PublishersGrouped> publishing;
  Former former;
  for (JournalRecord& record : restored.journal) {
    if (Restore(record, &former)) continue;
    if (auto* made = std::get_if<CutsMade>(&record)) {
      cuts.insert(cuts.end(), made->cuts.begin(), made->cuts.end());
    } else if (auto* round = std::get_if<RoundMade>(&record)) {
      for (const RoundMade::Lane& part : round->lanes) cuts.push_back(part.cut);
      made_rounds.push_back(std::move(*round));
    } else if (auto* began = std::get_if<StreamStart>(&record)) {
      if (!start) start = began->start;
    } else if (auto* planned = std::get_if<PassesPlanned>(&record)) {
      former.passes = std::move(*planned);
    } else if (const auto* grouped = std::get_if<PublishersGrouped>(&record)) {
      publishing = *grouped;
    } else if (auto* given = std::get_if<IdsReserved>(&record)) {
      nodes.next = nodes.reserved = std::max(nodes.reserved, given->node);
      ids.next = ids.reserved = std::max(ids.reserved, given->lease);
    } else if (auto* raised = std::get_if<RateRaised>(&record)) {
      cursors.rates().Add(std::move(*raised));
    } else if (const auto* lanes = std::get_if<LanesSet>(&record)) {
      rounds.RestoreLanes(*lanes);
    } else if (const auto* marked = std::get_if<LabelsMarked>(&record)) {
      if (const Status good = cursors.RestoreMarks(*marked); !good.ok())
        throw std::invalid_argument("the journal has a wrong " + good.message());
    } else if (const auto* set = std::get_if<ScaleSet>(&record)) {
      former.scale = *set;
    }
  }
  if (former.scale) RestoreScale(*former.scale);
  if (start && start->size() != config.partitions.size()) {
    throw std::invalid_argument("the journal has " + std::to_string(start->size()) +
                                " partitions; the stream has " + std::to_string(config.partitions.size()));
  }
  if (!start && (restored.manifest || !cuts.empty())) {
    throw std::invalid_argument("the journal has cuts but no start of the stream");
  }
  if (publications.enabled()) {
    if (start && !publishing) publishing = {static_cast<uint32_t>(config.partitions.size())};
    if (publishing) publications.Restore(*publishing);
    for (const Cut& cut : cuts) {
      if (cut.partition < config.partitions.size()) publications.OnCut(cut);
    }
  }
  if (start) {
    cursors.Start(*start);
    slices.SetStart(*start);
    if (former.passes) cursors.RestorePasses(*former.passes);
  }
  last_checkpoint_id = std::max(last_checkpoint_id, restored.last_checkpoint);
  if (restored.manifest) {
    durable = std::move(restored.manifest);
    CheckManifest(*durable, config.table.slices.size(), config.partitions.size());
    cuts.insert(cuts.end(), durable->open.begin(), durable->open.end());
    ids.next = ids.reserved = std::max(ids.reserved, durable->next_incarnation);
    last_checkpoint_id = std::max(last_checkpoint_id, durable->id);
    kept[durable->id] = *durable;
    slices.SetSource(*durable);
    groups.SetSource(Time(0), durable->step);
  }
  if (Stepped() && durable && durable->step == 0 && durable->events > 0) {
    throw std::invalid_argument("checkpoint " + std::to_string(durable->id) +
                                " was not made at a step: strategy " +
                                std::string(Name(config.strategy.kind)) + " cannot continue from it");
  }
  if (start && Stepped()) {
    rounds.Restore(slices.Watermarks(), slices.Version(), std::move(cuts), std::move(made_rounds));
  } else if (start) {
    splits.Restore(slices.Watermarks(), std::move(cuts));
  }
  // Steps that the members of a former run have begun are lost with them.
  if (scale.paused) rounds.Pause(config.take_over ? scale.begun : slices.Version());
  first_id = ids.next;
  TakeOver(former);
}

uint64_t Coordinator::State::NextId() {
  if (ids.next >= ids.reserved) {
    ids.reserved = ids.next + kIdBlock;
    journals.push_back({IdsReserved{nodes.reserved, ids.reserved}});
  }
  return ids.next++;
}

NodeId Coordinator::State::NextNode() {
  if (nodes.next >= nodes.reserved) {
    nodes.reserved = nodes.next + kNodeBlock;
    journals.push_back({IdsReserved{nodes.reserved, ids.reserved}});
  }
  return NodeId(nodes.next++);
}

// ---- inputs

void Coordinator::State::Dispatch(Time now, uint64_t call, const ControlRequest& request) {
  if (ending == Ending::kEnded) {
    const bool command = std::holds_alternative<AdminRequest>(request);
    return Refuse(call, command ? Code::kFailedPrecondition : Code::kAborted, "the job has ended");
  }
  const uint64_t term = TermOf(request);
  if (term != 0 && !SameRun(term, config.term)) return DispatchOfOtherRun(now, call, request);
  if (!guards::CurrentTerm(config.term, term)) {
    return Replaced(
        Status(Code::kStale, "this coordinator, of term " + std::to_string(NumberOf(config.term)) +
                                 ", was replaced by one of term " + std::to_string(NumberOf(term))));
  }
  const auto handle = [&]<class Request>(const Request& one) {
    if constexpr (requires { On(now, call, one); }) {
      On(now, call, one);
    } else {
      Refuse(call, Code::kInvalidArgument, "this request is not handled by the coordinator");
    }
  };
  std::visit(handle, request);
}

void Coordinator::State::On(Time now, uint64_t call, const AdminRequest& request) {
  switch (request.kind) {
    case AdminRequest::Kind::kCheckpoint:
      if (!pending && !slices.ready()) {
        return Answer(call, AdminReply{Status(Code::kUnavailable, "not all slices are live")});
      }
      checkpoint_calls.push_back(call);
      if (!pending) StartCheckpoint(now, false);
      return;
    case AdminRequest::Kind::kStop:
      stop_calls.push_back(call);
      return RequestStop(now);
    case AdminRequest::Kind::kNodeLost:
      if (members.contains(request.node)) Remove(now, request.node, Gone::kLost);
      return Answer(call, AdminReply{});
    case AdminRequest::Kind::kContinue:
      cursors.PauseAt(std::nullopt);
      Continue(now);
      return Answer(call, AdminReply{});
    case AdminRequest::Kind::kDiscard:
      stop_calls.push_back(call);
      return Discard(now);
    case AdminRequest::Kind::kScale:
      return OnScale(call, request);
    case AdminRequest::Kind::kDrain:
      return OnDrain(now, call, request);
    case AdminRequest::Kind::kPause:
      return OnPause(call);
    case AdminRequest::Kind::kGrant:
      return OnGrant(now, call, request);
  }
  Refuse(call, Code::kInvalidArgument, "unknown request");
}

void Coordinator::State::StartStream() {
  if (!cursors.started()) {
    const auto first = cursors.FirstOffsets();
    if (!first) return;
    if (auto grouped = publications.TakeGrouped()) journals.push_back({*grouped});
    journals.push_back({StreamStart{*first}});
    cursors.Start(*first);
    slices.SetStart(*first);
  }
  if (auto planned = cursors.PlanPasses()) journals.push_back({std::move(*planned)});
}

void Coordinator::State::OnRange(Time now, const StreamRange& range) {
  auto marks = cursors.AddMarks(range.partition, range.marks);
  if (!marks.ok()) {
    if (ending < Ending::kStoppingMembers) StopMembers(now, marks.status());
  } else if (!marks->empty()) {
    journals.push_back({LabelsMarked{range.partition, std::move(*marks)}});
  }
  cursors.OnRange(now, range);
}

// Cuts that are already made keep their rate.
void Coordinator::State::RaiseRate() {
  if (!config.raise || !cursors.started()) return;
  RateRaised span = cursors.NextSpan(*config.raise);
  if (cursors.rates().Add(span)) journals.push_back({std::move(span)});
}

// A member of another run, whose coordinator had this address. Its node may be somebody else's here.
void Coordinator::State::DispatchOfOtherRun(Time now, uint64_t call, ControlRequest request) {
  std::visit(
      [this](auto& one) {
        if constexpr (requires { one.term; }) one.term = config.term;
        if constexpr (requires {
                        one.term;
                        one.node;
                      })
          one.node = NodeId();
      },
      request);
  Dispatch(now, call, request);
}

void Coordinator::State::RequestStop(Time now) {
  if (ending == Ending::kStoppingMembers) return StopMembers(now, outcome);
  if (stop_requested) return;
  stop_requested = true;
  AbandonLaneChange(now);
  Continue(now);  // a job that is resumed trains
  ending = Ending::kDraining;
  ending_deadline = now + std::max(config.heartbeat_timeout, kEndingWait);
  // Its step may never come. The final checkpoint replaces it, and answers its callers.
  if (Stepped() && pending && pending->stage != PendingCheckpoint::Stage::kCommitting) AbandonCheckpoint(now);
  retry_checkpoint = now;
}

// Ends the job without another checkpoint: it can be resumed from the newest one.
void Coordinator::State::Discard(Time now) {
  Continue(now);
  StopMembers(now, ending == Ending::kStoppingMembers ? outcome : Status());
}

void Coordinator::State::Step(Time now) {
  if (ending == Ending::kEnded) return;
  StartStream();
  FillPlaces(now);
  AssignPublishers();
  PlaceSlices(now);
  StepMoves(now);
  StepCheckpoint(now);
  StepEnding(now);
  NotePauseReached();
  NoteBegun();
  RefreshView();
}

bool Coordinator::State::NeedsTerm(const ControlReply& reply) const {
  if (std::holds_alternative<AdminReply>(reply)) return true;
  if (const auto* worker = std::get_if<WorkerHeartbeatReply>(&reply)) {
    return worker->stop || !worker->leases.empty() || !worker->rescores.empty() || !worker->rounds.empty();
  }
  return ending == Ending::kStoppingMembers;
}

CoordinatorActions Coordinator::State::Take(Time now) {
  Step(now);
  CoordinatorActions actions;
  if (auto places = slices.TakePlaced(); !places.empty())
    journals.push_back({SlicesPlaced{std::move(places)}});
  // A record in the journal shows the same.
  const bool confirm =
      journals.empty() && std::ranges::any_of(replies, [this](const Reply& r) { return NeedsTerm(r.reply); });
  if (confirm) actions.emplace_back(ConfirmTerm{});
  for (auto& journal : journals) actions.emplace_back(std::move(journal));
  for (auto& reply : replies) actions.emplace_back(std::move(reply));
  for (auto& action : later) actions.emplace_back(std::move(action));
  journals.clear();
  replies.clear();
  later.clear();
  return actions;
}

// ---- the end of the job

// Every slice has every event of the stream, and so has the topic of predictions.
bool Coordinator::State::Finished() const {
  return slices.ready() && cursors.EndsAt(slices.Watermarks()) &&
         (!publications.enabled() || publications.Done(cursors.Positions()));
}

bool Coordinator::State::FinalCheckpointDone() const {
  if (stop_requested) return final_done || !slices.placed();
  return durable && durable->watermark == cursors.Positions();
}

// No worker holds a lease. In stepped strategies the slices have also reported since the last one ended.
bool Coordinator::State::Drained() {
  if (Queue().leased() > 0) return false;
  if (!Stepped()) return true;
  if (!drained) drained = heartbeat_counts;
  return AllReportedSince(*drained, heartbeat_counts);
}

// A job stopped in the middle of a step: all slices must complete the step that some have completed.
void Coordinator::State::FinishSteps(Time now) {
  if (Stepped() && !AllReduce() && stop_requested && slices.ready())
    rounds.StopAt(now, slices.HighestVersion());
}

// All slices have trained the same. In a job that is stopped without a worker that sees to that, they stay as
// they are: the job trains what they lack when it is resumed.
bool Coordinator::State::Even(Time now) {
  if (!slices.ready()) {
    unevenness.reset();
    return false;
  }
  if (Stepped()) return slices.Version() == slices.HighestVersion();
  const uint64_t runs = stop_requested ? splits.Uneven(slices) : 0;
  if (runs == 0) return true;
  const Time idle_deadline = now + std::max(config.heartbeat_timeout, kEndingWait);
  if (!unevenness || runs < unevenness->runs)
    unevenness = {runs, now + 3 * config.checkpoint_timeout, idle_deadline};
  if (Queue().leased() > 0) unevenness->idle_deadline = idle_deadline;
  return now >= std::min(unevenness->deadline, unevenness->idle_deadline);
}

void Coordinator::State::StepEnding(Time now) {
  if (ending == Ending::kNone && Finished()) {
    ending = Ending::kFinalCheckpoint;
    ending_deadline = now + 3 * config.checkpoint_timeout;
  } else if (ending == Ending::kFinalCheckpoint && !stop_requested && !Finished() && !FinalCheckpointDone()) {
    // A server was lost, or the stream has grown: there is more to train.
    ending = Ending::kNone;
  }
  if (ending == Ending::kDraining && (Drained() || now >= ending_deadline)) {
    // A worker that has not been heard of in time may still hold some.
    for (const auto& [node, member] : members) {
      if (!Stepped() && member.member.role == Role::kWorker) splits.Reclaim(now, node);
    }
    ending = Ending::kFinalCheckpoint;
    ending_deadline = now + 3 * config.checkpoint_timeout;
  }
  if (ending == Ending::kFinalCheckpoint) {
    FinishSteps(now);
    const bool even = Even(now);
    // As long as the servers hold the trained state, it is not given up because it cannot be saved.
    if (slices.ready() && (even || !Stepped())) ending_deadline = now + 3 * config.checkpoint_timeout;
    if (FinalCheckpointDone()) {
      StopMembers(now, Status());
    } else if (now >= ending_deadline) {
      // A job that was to end does not go on by itself.
      StopMembers(now, Status(stop_requested ? Code::kFailedPrecondition : Code::kDeadlineExceeded,
                              "the final checkpoint could not be made; the newest one is " +
                                  (durable ? durable->directory : std::string("none"))));
    } else if (!pending && even && now >= retry_checkpoint) {
      StartCheckpoint(now, true);
    }
  }
  if (ending == Ending::kStoppingMembers) {
    // Nobody waits for a member that only serves.
    const bool all = std::ranges::all_of(members, [](const auto& entry) {
      return entry.second.told_to_stop || entry.second.member.role == Role::kServe;
    });
    if (all || now >= ending_deadline) End(outcome);
  }
}

// From now on every reply announces the end of the job.
void Coordinator::State::StopMembers(Time now, Status how) {
  // Nobody would finish it. A checkpoint whose manifest is being written is complete.
  if (pending && pending->stage != PendingCheckpoint::Stage::kCommitting) AbandonCheckpoint(now);
  ending = Ending::kStoppingMembers;
  ending_deadline = now + std::max(config.heartbeat_timeout, kEndingWait);
  outcome = std::move(how);
  for (uint64_t call : stop_calls) Answer(call, AdminReply{outcome});
  stop_calls.clear();
}

void Coordinator::State::End(Status status) {
  ending = Ending::kEnded;
  MembersLeft left;
  for (const auto& [node, member] : members) left.nodes.push_back(node);
  AnswerCheckpointCalls(Status(Code::kAborted, "the job has ended"));
  const bool saved = durable && durable->watermark == cursors.Positions();
  later.emplace_back(JobEnded{std::move(status), Finished() && saved, std::move(left)});
}

// ---- public interface

Coordinator::Coordinator(CoordinatorConfig config, RecoveredState restored)
    : state_(std::make_unique<State>(std::move(config), std::move(restored))) {}

Coordinator::~Coordinator() = default;

CoordinatorActions Coordinator::OnRequest(Time now, uint64_t call, const ControlRequest& request) {
  state_->Dispatch(now, call, request);
  return state_->Take(now);
}

CoordinatorActions Coordinator::OnStream(Time now, const std::vector<StreamRange>& ranges) {
  for (const StreamRange& range : ranges) state_->OnRange(now, range);
  return state_->Take(now);
}

CoordinatorActions Coordinator::OnNodeLost(Time now, NodeId node) {
  if (state_->members.contains(node)) state_->Remove(now, node, State::Gone::kLost);
  return state_->Take(now);
}

CoordinatorActions Coordinator::OnCheckpointPrepared(Time now, uint64_t id, Result<CheckpointOrder> order) {
  state_->OnPrepared(now, id, order);
  return state_->Take(now);
}

CoordinatorActions Coordinator::OnManifestCommitted(Time now, uint64_t id, const Status& status) {
  state_->OnCommitted(now, id, status);
  return state_->Take(now);
}

CoordinatorActions Coordinator::OnCheckpointVerified(Time now, uint64_t id, const Status& status) {
  state_->OnVerified(now, id, status);
  return state_->Take(now);
}

CoordinatorActions Coordinator::OnPublishers(Time now, const std::vector<PublisherReport>& reports) {
  if (state_->ending == State::Ending::kEnded) return {};
  state_->OnPublishers(now, NodeId(), reports);
  return state_->Take(now);
}

std::vector<PublisherOrder> Coordinator::publisher_orders() const {
  return state_->publications.enabled() ? state_->publications.OrdersFor(NodeId())
                                        : std::vector<PublisherOrder>();
}

std::vector<LabelMarksWanted> Coordinator::label_marks() const {
  return state_->cursors.MarksWanted();
}

CoordinatorActions Coordinator::OnDrift(Time now) {
  if (state_->ending == State::Ending::kEnded) return {};
  state_->RaiseRate();
  return state_->Take(now);
}

CoordinatorActions Coordinator::OnReplaced(const Status& why) {
  if (state_->ending == State::Ending::kEnded) return {};
  state_->Replaced(why);
  return state_->Take(Time(0));  // it has ended, so nothing is due
}

CoordinatorActions Coordinator::OnTimer(Time now) {
  State& s = *state_;
  if (s.ending == State::Ending::kEnded) return {};
  if (now >= s.next_sweep) {
    // While this process did not run, others could not be heard, so that time does not count as their
    // silence.
    const Duration away = now - s.next_sweep;
    if (away > s.config.heartbeat_timeout / 4) {
      for (auto& [node, member] : s.members) {
        member.last_seen = std::min(now, member.last_seen + away);
        member.last_moved = std::min(now, member.last_moved + away);
      }
      for (auto& [node, since] : s.orphans_since) since = std::min(now, since + away);
    }
    s.next_sweep = now + BusyInterval(s.config.heartbeat_interval);
    s.EvictSilent(now);
    s.FreeOverdue(now);
    // A coordinator without anything to journal also finds out that it was replaced.
    if (s.config.term != 0) s.later.emplace_back(ConfirmTerm{});
  }
  return s.Take(now);
}

const std::vector<MemberJoined>& Coordinator::taken_over() const {
  return state_->taken_over;
}

Time Coordinator::next_timer() const {
  return state_->ending == State::Ending::kEnded ? Time::max() : state_->next_sweep;
}

namespace {

// For a job whose last server is gone; empty: it has one, or has had none.
std::string LostServers(const std::deque<CoordinatorStatus::Departure>& departures, const View& view) {
  const auto is_server = [](const Member& member) { return member.role == Role::kServer; };
  if (std::ranges::any_of(view.members, is_server)) return "";
  const auto last = std::ranges::find_if(departures.rbegin(), departures.rend(),
                                         [&](const auto& gone) { return is_server(gone.member); });
  if (last == departures.rend()) return "";
  using How = CoordinatorStatus::Departure::How;
  return "a parameter server: the last one, " + Name(last->member) +
         (last->how == How::kLeft   ? ", has left"
          : last->how == How::kLost ? ", was lost"
                                    : ", was evicted");
}

}  // namespace

CoordinatorStatus Coordinator::status() const {
  const State& s = *state_;
  CoordinatorStatus status;
  using Phase = CoordinatorStatus::Phase;
  status.phase = s.ending == State::Ending::kEnded  ? Phase::kEnded
                 : s.ending != State::Ending::kNone ? Phase::kStopping
                 : s.slices.ready()
                     ? (s.cursors.Paused() || s.scale.paused ? Phase::kPaused : Phase::kRunning)
                 : s.AllReduce() ? Phase::kWaitingForWorkers
                                 : Phase::kWaitingForServers;
  status.term = s.config.term;
  status.view = *s.view;
  status.events = s.slices.Events();
  status.watermark = s.slices.Watermarks();
  status.lag = s.cursors.Lag(status.watermark);
  for (uint32_t p = 0; p < s.cursors.size(); ++p) {
    status.ends.push_back(s.cursors[p].end);
    status.rate = std::max(status.rate, s.cursors.rates().At(p, s.cursors[p].at));
  }
  status.leases = s.Queue().leased();
  status.regranted_leases = s.Queue().regranted();
  status.overdue_leases = s.overdue_members + s.Queue().overdue();
  for (const auto& [node, member] : s.evicted) {
    if (s.Stuck(member)) status.stuck_evicted.push_back({member.member, member.host, member.pid});
  }
  for (const auto& [node, member] : s.members) {
    if (s.Stuck(member)) status.stuck.push_back(node);
    for (NodeId server : member.unreachable) status.unreachable.emplace_back(node, server);
  }
  for (const auto& pair : s.groups.Unreachable()) status.unreachable.push_back(pair);
  status.step = s.slices.Version();
  if (s.Stepped()) status.lanes = s.rounds.lanes();
  status.rounds = s.rounds.made();
  status.late = s.rounds.late();
  status.finished = s.Finished();
  status.evictions = s.evictions;
  status.departures.assign(s.last_departures.begin(), s.last_departures.end());
  status.wanted = {.workers = s.scale.workers, .servers = s.scale.servers};
  status.grant = s.grant;
  status.failed_checkpoints = s.failed_checkpoints;
  status.checkpoint_failure = s.checkpoint_failure.message();
  if (s.ending == State::Ending::kFinalCheckpoint && !s.checkpoint_failure.ok())
    status.waiting_for = "the final checkpoint, which failed: " + s.checkpoint_failure.message();
  if (s.publications.enabled()) {
    status.predictions = s.publications.Progress(status.watermark);
    if (status.waiting_for.empty()) status.waiting_for = s.publications.WaitingFor();
  }
  if (status.waiting_for.empty() && !s.awaited.empty() && !s.slices.ready())
    status.waiting_for = "members of the former coordinator: " + s.Awaited();
  if (status.waiting_for.empty() && !s.AllReduce() && s.ending < State::Ending::kStoppingMembers)
    status.waiting_for = LostServers(s.last_departures, status.view);
  if (s.config.late_labels) status.unlabelled = s.cursors.Unlabelled();
  status.moves = {.planned = s.moves.planned().size(),
                  .slices = s.moves.moved_slices(),
                  .bytes = s.moves.moved_bytes(),
                  .failed = s.moves.failed()};
  if (s.moves.active()) status.moves.planned += s.moves.active()->order.slices.size();
  status.replicas = s.config.replicas;
  status.replicated = s.slices.replicated();
  s.AddPlaces(&status);
  for (const auto& [node, member] : s.members) {
    if (member.member.role == Role::kServer && s.Draining(node)) status.moves.draining.push_back(node);
  }
  if (s.durable) {
    status.checkpoint = s.durable->id;
    status.checkpoint_directory = s.durable->directory;
  }
  if (s.pending) {
    status.saving = {.id = s.pending->id,
                     .directory = s.pending->order.directory,
                     .waiting_for = s.CheckpointWaitsFor(),
                     .limit = s.CheckpointTimeout()};
  }
  return status;
}

}  // namespace leat::protocol
