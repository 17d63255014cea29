#include "lab/sim/cluster/cluster.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/check.h"
#include "lab/sim/cluster/cluster_state.h"
#include "protocol/allreduce/bucket_plan.h"

namespace leat::sim {

namespace {

// As in the shells in roles/.
constexpr Duration kTick = std::chrono::milliseconds(20);
constexpr Duration kPoll = std::chrono::milliseconds(50);
// With this many pending events, their data has long left the cache.
constexpr uint64_t kCrowd = 4096;

}  // namespace

Cluster::State::State(Cluster& cluster, ClusterOptions o, Workload& w, Hooks h)
    : self(cluster), options(std::move(o)), workload(w), hooks(std::move(h)), rng(options.seed) {
  for (const SliceSpec& slice : options.table.slices) {
    slice_ranges.push_back({elements, elements + slice.elements()});
    elements = slice_ranges.back().end;
  }
  if (const auto v = MomentsVariable(options.table)) {
    moment_words = static_cast<uint64_t>(options.table.variables[*v].shape.elements());
  }
  modelled = workload.Join() == nullptr;
  MakeHosts();
  std::vector<uint64_t> variable_bytes;
  std::vector<uint64_t> variable_ends;  // in elements
  for (const optim::VariableSpec& variable : options.table.variables) {
    const auto n = static_cast<uint64_t>(variable.shape.elements());
    variable_bytes.push_back(n * sizeof(float));
    variable_ends.push_back((variable_ends.empty() ? 0 : variable_ends.back()) + n);
  }
  for (const auto& [first, end] : PlanBuckets(variable_bytes, options.reduce.bucket_bytes)) {
    buckets.push_back({first == 0 ? 0 : variable_ends[first - 1], variable_ends[end - 1]});
  }
}

void Cluster::State::ScheduleIn(const std::shared_ptr<Process>& process, Duration delay,
                                std::function<void()> what) {
  queue.After(delay, [this, process, what = std::move(what)]() mutable {
    if (!process->alive) return;
    if (now() < process->paused_until)
      return ScheduleIn(process, process->paused_until - now(), std::move(what));
    what();
  });
}

ClusterResult Cluster::State::Run() {
  OwnDirectories() ? StartHosts() : StartCoordinator(0, false);
  StartAll();
  if (options.faults.fault_interval > Duration(0)) {
    Replace();
    OwnDirectories() ? InjectStandbyFault() : InjectFault();
    TroubleFollowers();
  }
  if (options.deaths.mean_time_between > Duration(0)) InjectDeath();
  for (const PlannedFault& planned : options.plan) {
    queue.After(planned.at, [this, planned] { Carry(planned); });
  }
  if (options.alarm_interval > Duration(0)) queue.After(options.alarm_interval, [this] { Alarm(); });
  if (hooks.watch) queue.After(hooks.watch_every, [this] { Watch(); });
  if (options.progress_within > Duration(0))
    queue.After(options.progress_within, [this] { CheckProgress(); });
  EventQueue::Event event;
  while (!done && now() < options.time_limit && queue.Next(&event)) {
    // With fewer, the data is in the cache anyway.
    if (queue.size() >= kCrowd) {
      queue.LookAhead([this](const EventQueue::Event& soon, int hop) { PrefetchEvent(soon, hop); });
    }
    Handle(event);
  }
  result.took = now();
  result.damaged = disk.found_damaged();
  result.rounds_remade = disk.rounds_remade();
  if (!done) Violate(Invariant::kDeadline, Standing());
  result.ended = !result.violation;
  return result;
}

void Cluster::State::Handle(const EventQueue::Event& event) {
  switch (event.kind) {
    case kArrive:
      return OnArrive(event.what);
    case kDeliver:
      return OnDeliver(event.what);
    case kMoreToSend:
      return OnMoreToSend(event.what);
    case kComputed:
      return OnComputed(event.what);
    case kPieceArrives:
      return OnPieceArrives(event.what);
    case kPieceDelivered:
      return OnPieceDelivered(event.what);
    case kPieceSent:
      return OnPieceSent(event.what);
    case kCrosses:
      return OnCrosses(event.what);
    case kPieceCrosses:
      return OnPieceCrosses(event.what);
    case kCores:
      return OnCores(event.what);
    case kChunkArrives:
      return OnChunkArrives(event.what);
    case kChunkDelivered:
      return OnChunkDelivered(event.what);
    case kWake:
      if (const ProcessPtr p = roles[event.what]; p && p->wake_at == event.at) {
        p->wake_at = Time::max();
        Wake(p);
      }
      return;
    default:
      return;
  }
}

void Cluster::State::Watch() {
  if (!hooks.watch(self)) {
    done = true;
    return;
  }
  queue.After(hooks.watch_every, [this] { Watch(); });
}

// ---- the coordinator and the stream

CoordinatorConfig Cluster::State::Config() const {
  CoordinatorConfig config = static_cast<const CoordinatorConfig&>(options);
  for (uint32_t p = 0; p < options.stream.partitions.size(); ++p) config.partitions.push_back(p);
  config.late_labels = LateLabels();
  return config;
}

void Cluster::State::StartCoordinator(uint32_t address, bool take_over) {
  if (coordinators[address]) coordinators[address]->alive = false;
  coordinator = coordinators[address] = std::make_shared<CoordinatorProcess>();
  coordinator->address = address;
  CoordinatorConfig config = Config();
  config.term = coordinator->term = disk.Claim();
  config.take_over = config.keep_scale = take_over;
  try {
    RecoveredState restored = disk.Restore();
    if (take_over) NoteTakenOver(restored);
    coordinator->machine = std::make_unique<Coordinator>(std::move(config), std::move(restored));
  } catch (const std::invalid_argument& e) {
    coordinator->alive = false;
    return Violate(Invariant::kRestored, e.what());
  }
  if (LateLabels()) {
    coordinator->labels.emplace(Mix(Mix(options.seed, 1), coordinator->term), options.stream.late_labels);
    coordinator->labels->Start(coordinator->machine->label_marks());
  }
  Tick(coordinator);
  Poll(coordinator);
}

void Cluster::State::KillCoordinator(Duration absent, uint32_t next_address) {
  const auto dead = coordinator;
  dead->alive = false;
  ++result.restarts;
  Note("kill, started again after " + std::to_string(Seconds(absent)) + " s");
  queue.After(absent, [this, dead, next_address] {
    if (coordinator == dead) StartCoordinator(next_address, true);
  });
}

// It has found out that a later one has taken over.
void Cluster::State::OnReplaced(const CoordinatorPtr& c) {
  Do(c, c->machine->OnReplaced(Status(Code::kStale, "another coordinator has taken over")));
}

void Cluster::State::Tick(const CoordinatorPtr& c) {
  if (c->replication) {
    if (c->machine->next_timer() == Time::max() && !c->over_since) c->over_since = now();
    c->replication->OnTimer(now());
    Flush(c);
    if (!c->alive || c->ended) return;
  }
  if (c->machine->next_timer() <= now()) Do(c, c->machine->OnTimer(now()));
  ScheduleIn(c, kTick, [this, c] { Tick(c); });
}

void Cluster::State::Poll(const CoordinatorPtr& c) {
  Do(c, c->machine->OnStream(now(), Ranges(c.get())));
  ScheduleIn(c, kPoll, [this, c] { Poll(c); });
}

void Cluster::State::Alarm() {
  const auto c = coordinator;
  if (c->alive && !c->ended && now() >= c->paused_until) Do(c, c->machine->OnDrift(now()));
  queue.After(options.alarm_interval, [this] { Alarm(); });
}

std::vector<StreamRange> Cluster::State::Ranges(CoordinatorProcess* c) {
  const StreamPlan& stream = options.stream;
  const double grown =
      stream.takes > Duration(0) ? std::min(1.0, Seconds(now()) / Seconds(stream.takes)) : 1.0;
  std::vector<StreamRange> ranges;
  for (uint32_t p = 0; p < stream.partitions.size(); ++p) {
    const auto& [first, events] = stream.partitions[p];
    const auto there = static_cast<uint64_t>(grown * static_cast<double>(events));
    ranges.push_back({p, first, first + there, grown >= 1.0});
  }
  if (!LateLabels()) return ranges;
  const std::vector<LabelMarksWanted> wanted = c->machine->label_marks();
  for (StreamRange& range : ranges) c->labels->Mark(now(), wanted[range.partition], &range);
  return ranges;
}

void Cluster::State::Do(const CoordinatorPtr& c, CoordinatorActions actions) {
  if (c->replication) return DoAgreed(c, std::move(actions));
  for (CoordinatorAction& action : actions) {
    if (!c->alive || c->ended) return;
    // Nothing waits for the answer of the disk: replies to other requests go out meanwhile.
    if (&action == &actions.back() && std::holds_alternative<ConfirmTerm>(action)) {
      ScheduleIn(c, DiskTakes(), [this, c] {
        if (!disk.Confirm(c->term)) OnReplaced(c);
      });
      return;
    }
    Act(c, action);
    if (c->alive && !c->ended && Chance(options.faults.crash_between_actions)) {
      c->alive = false;
      if (c == coordinator) KillCoordinator();
    }
  }
}

void Cluster::State::NoteRecord(const JournalRecord& record) {
  if (const auto* set = std::get_if<LanesSet>(&record)) {
    ++result.lane_changes;
    workload.OnLanes(*set);
  }
  if (std::holds_alternative<RateRaised>(record)) ++result.raises;
  if (const auto* marked = std::get_if<LabelsMarked>(&record)) {
    result.marks += marked->marks.size();
    if (options.check) label_check.OnJournaled(*marked);
  }
}

void Cluster::State::Act(const CoordinatorPtr& c, CoordinatorAction& action) {
  const Faults& faults = options.faults;
  if (auto* reply = std::get_if<Reply>(&action)) {
    if (options.check && LateLabels()) CheckLabels(reply->reply);
    if (options.check) NoteLeases(*c, reply->reply);
    if (c->replication) Stamp(c.get(), reply->call, &reply->reply);
    if (auto call = c->calls.extract(reply->call)) call.mapped()(std::move(reply->reply));
  } else if (auto* journal = std::get_if<AppendJournal>(&action)) {
    if (!c->replication && !disk.Append(c->term, journal->record)) return OnReplaced(c);
    if (const auto* set = std::get_if<ScaleSet>(&journal->record))
      c->replication ? NoteAgreedPause(*set) : NotePause(*set);
    if (!c->replication) NoteRecord(journal->record);
  } else if (std::holds_alternative<ConfirmTerm>(action)) {
    if (!disk.Confirm(c->term)) OnReplaced(c);
  } else if (auto* prepare = std::get_if<PrepareCheckpoint>(&action)) {
    const uint64_t id = prepare->id;
    ScheduleIn(c, DiskTakes(), [this, c, id] {
      Result<CheckpointOrder> order = Status(Code::kResourceExhausted, "the disk is full");
      if (!Chance(options.faults.full_disk)) order = PrepareCheckpointOf(*c, id);
      Do(c, c->machine->OnCheckpointPrepared(now(), id, std::move(order)));
    });
  } else if (auto* commit = std::get_if<CommitManifest>(&action)) {
    ScheduleIn(c, DiskTakes(), [this, c, manifest = commit->manifest] {
      if (CoordinatorDiesAt(DeathPoint::kBeforeManifest, c)) return;
      Status status;
      if (Chance(options.faults.full_disk)) status = Status(Code::kResourceExhausted, "the disk is full");
      // A failed one may be complete on disk all the same.
      if (status.ok() || rng.Chance(0.5)) {
        if (!CommitCheckpointOf(*c, manifest)) return OnReplaced(c);
        if (options.check) CheckCheckpoint(manifest);
        ++result.checkpoints;
        if (Chance(options.faults.damaged)) disk.DamageNewest();
      }
      if (CoordinatorDiesAt(DeathPoint::kManifestSaved, c)) return;
      // A crash in between leaves a checkpoint that was never announced.
      ScheduleIn(c, DiskTakes(), [this, c, id = manifest.id, status] {
        Do(c, c->machine->OnManifestCommitted(now(), id, status));
      });
    });
  } else if (auto* drop = std::get_if<DropCheckpoints>(&action)) {
    if (!c->replication && !disk.Drop(c->term, drop->oldest_kept, drop->watermark)) OnReplaced(c);
  } else if (auto* remove = std::get_if<RemoveCheckpoint>(&action)) {
    if (!c->replication && !disk.Remove(c->term, remove->id)) OnReplaced(c);
  } else if (auto* verify = std::get_if<VerifyCheckpoint>(&action)) {
    ScheduleIn(c, DiskTakes(), [this, c, id = verify->id] {
      const Status status = c->replication ? Status() : disk.Verify(c->term, id);
      if (status.code() == Code::kStale) return OnReplaced(c);
      Do(c, c->machine->OnCheckpointVerified(now(), id, status));
    });
  } else if (auto* ended = std::get_if<JobEnded>(&action)) {
    c->ended = true;
    if (ended->status.code() == Code::kStale || c != coordinator) {
      c->alive = false;
      ++result.replaced;
      if (c->replication) return StartAt(c->address);
      if (c == coordinator)
        Violate(Invariant::kOneCoordinator, "the newest coordinator was told that it is replaced");
      return;
    }
    if (!c->replication) disk.Append(c->term, ended->left);
    result.regranted_leases += c->machine->status().regranted_leases;
    result.overdue_leases += c->machine->status().overdue_leases;
    result.replicated = c->machine->status().replicated;
    const bool fault_free =
        now() > faults.until + std::max(faults.longest_pause, faults.longest_cut) + std::chrono::seconds(15);
    // A stop may give up its final checkpoint, but only for lack of time, and only under faults.
    if (!ended->status.ok() &&
        (!options.resume || ended->status.code() != Code::kFailedPrecondition || fault_free)) {
      result.failure = ended->status;
      return Violate(Invariant::kJobEnds, "the job ended with " + ended->status.ToString());
    }
    JobEnds(ended->status);
  }
}

void Cluster::State::JobEnds(const Status& status) {
  if (Complete()) {
    done = true;
    return;
  }
  if (!options.resume || !options.resume(&options.servers, &options.cuts)) {
    return Violate(Invariant::kJobEnds, "the job has ended before the stream: " + status.ToString());
  }
  ++result.resumes;
  ResumeJob();
}

// All processes are gone; the job is resumed from the disk.
void Cluster::State::ResumeJob() {
  for (const auto& c : coordinators) {
    if (c) c->alive = false;
  }
  for (const ProcessPtr& p : std::vector(roles)) {
    if (p) OnExit(p);
  }
  queue.After(Between(10, 300), [this] {
    StartCoordinator(0, false);
    StartAll();
  });
}

bool Cluster::State::Complete() const {
  const Manifest* newest = disk.newest();
  if (!newest || now() < options.stream.takes) return false;
  for (uint32_t p = 0; p < options.stream.partitions.size(); ++p) {
    const auto& [first, events] = options.stream.partitions[p];
    if (events > 0 && newest->watermark[p] != Position{options.cuts.epochs - 1, first + events}) return false;
  }
  return true;
}

// ---- public interface

Cluster::Cluster(ClusterOptions options, Workload& workload, Hooks hooks)
    : state_(std::make_unique<State>(*this, std::move(options), workload, std::move(hooks))) {}

Cluster::~Cluster() = default;

ClusterResult Cluster::Run() {
  return state_->Run();
}

Time Cluster::now() const {
  return state_->now();
}

uint64_t Cluster::messages() const {
  return state_->result.messages;
}

CoordinatorStatus Cluster::status() const {
  return state_->coordinator->machine->status();
}

bool Cluster::Values(std::vector<float>* values) const {
  const State& s = *state_;
  values->assign(s.elements, 0);
  std::vector<bool> there(s.slice_ranges.size(), false);
  // All-reduce: the values of the worker that is furthest.
  const RoleProcess* farthest = nullptr;
  for (const auto& p : s.roles) {
    if (!p || !p->group_member || !p->group_member->parameters || !p->group_member->machine->holds())
      continue;
    if (farthest == nullptr || p->group_member->machine->state().header().step >
                                   farthest->group_member->machine->state().header().step) {
      farthest = p.get();
    }
  }
  for (uint32_t i = 0; farthest != nullptr && i < s.slice_ranges.size(); ++i) {
    const auto slice = farthest->group_member->parameters->values(SliceId(i));
    std::ranges::copy(slice, values->begin() + static_cast<std::ptrdiff_t>(s.slice_ranges[i].begin));
    there[i] = true;
  }
  // A server may still have an earlier state of a slice that has moved.
  std::vector<std::pair<Incarnation, uint64_t>> newest(s.slice_ranges.size());
  for (const auto& p : s.roles) {
    if (!p || !p->server) continue;
    for (uint32_t i = 0; i < s.slice_ranges.size(); ++i) {
      const Slice* slice = p->server->Find(SliceId(i));
      if (!slice || !slice->memory || std::pair(slice->incarnation, slice->version) < newest[i]) continue;
      newest[i] = {slice->incarnation, slice->version};
      std::ranges::copy(slice->values(),
                        values->begin() + static_cast<std::ptrdiff_t>(s.slice_ranges[i].begin));
      there[i] = true;
    }
  }
  return std::ranges::find(there, false) == there.end();
}

bool Cluster::Saved(std::vector<float>* values) const {
  const State& s = *state_;
  values->assign(s.elements, 0);
  const Manifest* newest = s.disk.newest();
  if (newest == nullptr || s.modelled) return false;
  for (const ManifestShard& shard : newest->shards) {
    for (const SliceIncarnation& incarnation : shard.slices) {
      const auto slice = s.disk.Read(newest->directory, shard.file, incarnation.slice);
      if (!slice.ok()) return false;
      std::ranges::copy(
          slice->values(),
          values->begin() + static_cast<std::ptrdiff_t>(s.slice_ranges[incarnation.slice.value].begin));
    }
  }
  return true;
}

const Disk& Cluster::disk() const {
  return state_->disk;
}

std::vector<ServerProgress> Cluster::servers() const {
  std::vector<ServerProgress> all;
  for (const auto& [node, progress] : state_->servers) all.push_back(progress);
  return all;
}

}  // namespace leat::sim
