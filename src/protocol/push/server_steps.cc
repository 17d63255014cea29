#include "protocol/push/server_steps.h"

#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <variant>

#include "base/check.h"
#include "protocol/guards.h"

namespace leat::protocol {

// ---- the arithmetic of steps

namespace {

// Elements of a step that are added and updated while they are in the innermost cache.
constexpr uint64_t kChunk = 4096;
// The minimum size of updates that are spread over threads: waking them costs as much as some ten thousand
// elements.
constexpr uint64_t kWorthSharing = uint64_t{1} << 17;

void CopyFloats(std::span<float> to, std::span<const float> from) {
  std::memcpy(to.data(), from.data(), from.size_bytes());
}

// Pure: other updates may run at the same time.
void RunUpdate(const StepUpdate& update) {
  const SliceRule& rule = *update.rule;
  const uint64_t elements = update.elements, most = rule.whole ? elements : std::min(elements, kChunk);
  std::array<float, kChunk> chunk;
  LEAT_CHECK(rule.slots <= optim::kMaxSlots);
  const std::span<float> to = FloatsIn(update.to, elements * (1 + rule.slots));
  const std::span<float> from = FloatsIn(update.from, elements * (1 + rule.slots));
  for (uint64_t begin = 0; begin < elements; begin += most) {
    const uint64_t n = std::min(most, elements - begin);
    const std::span<float> sum =
        update.sum ? FloatsIn(update.sum, elements).subspan(begin, n) : std::span(chunk).first(n);
    for (size_t i = 0; i < update.addends.size(); ++i) {
      const auto& addend = update.addends[i];
      rule.Add(i == 0 && !update.has_sum, sum, addend.numbers.subspan(begin, n), addend.weight);
    }
    if (!rule.moments()) optim::Scale(sum, update.scale);
    if (update.previous)
      CopyFloats(FloatsIn(update.previous, elements).subspan(begin, n), from.subspan(begin, n));
    std::array<std::span<float>, 1 + optim::kMaxSlots> at;  // values, slot 0, …
    for (uint32_t i = 0; i <= rule.slots; ++i) {
      at[i] = to.subspan(i * elements + begin, n);
      if (!update.previous) CopyFloats(at[i], from.subspan(i * elements + begin, n));
    }
    rule.Apply(at[0], sum, std::span(at).subspan(1, rule.slots), update.version, update.rate);
  }
}

}  // namespace

Buffer StepUpdates::TakeMemory(uint64_t bytes) {
  auto& buffers = spare_[bytes];
  if (buffers.empty()) return job_.NewMemory(bytes);
  Buffer buffer = std::move(buffers.back());
  buffers.pop_back();
  return buffer;
}

void StepUpdates::Add(StepUpdate&& update) {
  if (!deferring_) {
    RunUpdate(update);
    return Give(&update);
  }
  *update.updating = true;
  updates_.push_back(std::move(update));
}

void StepUpdates::RunAll() {
  uint64_t elements = 0;
  for (const StepUpdate& update : updates_) elements += update.elements;
  const auto& run_parts = job_.config().run_parts;
  if (run_parts && elements >= kWorthSharing && updates_.size() > 1) {
    run_parts(updates_.size(), [this](size_t i) { RunUpdate(updates_[i]); });
  } else {
    for (const StepUpdate& update : updates_) RunUpdate(update);
  }
  for (StepUpdate& update : updates_) {
    *update.updating = false;
    Give(&update);
  }
  updates_.clear();
}

void StepUpdates::Give(StepUpdate* update) {
  GiveBuffer(std::move(update->sum));
  for (auto& addend : update->addends) GiveBuffer(std::move(addend.memory));
}

// ---- steps

ServerSteps::ServerSteps(ServerView& view, HostedSlices& slices, ReplicaForwards& forwards,
                         ServerMoves& moves, PushFigures& figures)
    : view_(view),
      slices_(slices),
      forwards_(forwards),
      moves_(moves),
      figures_(figures),
      updates_(slices.job()),
      slice_steps_(slices.size()) {}

void ServerSteps::OnChanges(const std::vector<SliceChange>& changes) {
  for (const SliceChange& change : changes) {
    claims_outdated_ = true;
    SliceSteps& steps = slice_steps_[change.slice.value];
    if (change.kind == SliceChange::Kind::kLive) {
      TakeDecided(change.decided);
      if (slices_.stepped()) steps.open.resize(strategy().ahead() + 1);
    }
    if (change.kind != SliceChange::Kind::kDropped) continue;
    steps = {};
    if (!change.none_left) continue;
    // A new history: its steps are announced anew.
    steps_.clear();
    found_ = nullptr;
    outcomes_recorded_ = 0;
    figures_.consecutive_rejected = 0;
  }
}

// ---- the state of a step

void ServerSteps::FindAnother(uint64_t step) {
  const auto at = steps_.find(step);
  found_ = at == steps_.end() ? nullptr : &at->second;
  found_number_ = step;
}

ServerSteps::Step* ServerSteps::MakeStep(const StepLane& step_lane) {
  if (steps_.size() >= kMaxSteps + strategy().ahead()) return nullptr;
  Step& step = steps_[step_lane.step];
  step.width = step_lane.width;
  step.needed = step_lane.needed;
  step.runs.resize(step_lane.width);
  step.workers.resize(step_lane.width);
  return &step;
}

void ServerSteps::Prune() {
  uint64_t lowest = UINT64_MAX;
  for (const HotSlice& hot : slices_.hot()) {
    if (const Slice* held = hot.held()) lowest = std::min(lowest, held->version);
  }
  if (slices_.live() == 0) return;
  steps_.erase(steps_.begin(), steps_.lower_bound(lowest - std::min(lowest, kRemembered)));
  found_ = nullptr;
}

// Rebuilds the claims from the lanes that may still count and the ledger of the slice that is least advanced.
// A slice that has moved here may have runs that the others still wait for.
void ServerSteps::RebuildClaims() {
  claims_outdated_ = false;
  const Slice* least = nullptr;
  for (const HotSlice& hot : slices_.hot()) {
    const Slice* const held = hot.held();
    if (held && (!least || held->version < least->version)) least = held;
  }
  if (!least) return;
  claims_ = slices_.ledgers().Get(least->id.value);
  for (const auto& [number, step] : steps_) {
    for (uint32_t lane = 0; lane < step.width; ++lane) {
      const auto& run = step.runs[lane];
      if (run && (step.counted.empty() || step.Counts(lane))) claims_.Record(run->cut, run->run);
    }
  }
}

// ---- decisions

Status ServerSteps::TakeCounted(const PushRequest& request) {
  const bool here = !request.slices.empty() && std::ranges::all_of(request.slices, [&](const SliceRef& ref) {
    const Slice* slice = slices_.Alive(ref.slice);
    return slice && guards::SameIncarnation(ref.incarnation, slice->incarnation);
  });
  if (!here || view_.NotInView(request)) return {};  // perhaps of another history
  const StepLane& step_lane = *request.step_lane;
  Step* step = FindStep(step_lane.step);
  if (!step) {
    const bool open = std::ranges::any_of(slices_.all(), [&](const auto& hosted) {
      return hosted && hosted->slice && hosted->slice->version <= step_lane.step &&
             step_lane.step <= hosted->slice->version + strategy().ahead();
    });
    step = open ? OpenStepOf(step_lane) : nullptr;
    if (!step) return {};
  }
  const bool chosen = !step->counted.empty() || Decides();
  if (step->width != step_lane.width || (chosen && step->counted != request.counted)) {
    return Status(Code::kInvalidArgument, "push: its counted lanes differ from those known for step " +
                                              std::to_string(step_lane.step));
  }
  if (chosen) return {};
  step->counted = request.counted;
  OnDecided(step_lane.step, *step);
  CompleteAll();
  return {};
}

void ServerSteps::Decide(const PushRequest& request) {
  const StepLane& step_lane = *request.step_lane;
  if (step_lane.needed == step_lane.width || request.disposition == Disposition::kPull || !Decides()) return;
  Step* step = FindStep(step_lane.step);
  if (!step || !step->counted.empty() || !step->chosen.empty() || step_lane.lane >= step->width) return;
  if (!IsWhole(step_lane.step, step_lane.lane)) return;
  step->whole.resize((step->width + 63) / 64);
  step->whole[step_lane.lane / 64] |= uint64_t{1} << (step_lane.lane % 64);
  ChooseLanes(step);
  SettleDecisions();
}

// True if the lane has arrived for all slices of this server.
bool ServerSteps::IsWhole(uint64_t step, uint32_t lane) const {
  for (const auto& hosted : slices_.all()) {
    // The lanes of one that moves go to another server.
    if (!hosted || !hosted->slice || hosted->frozen || hosted->is_replica) continue;
    const uint64_t version = hosted->slice->version;
    const auto& open = slice_steps_[hosted->order.slice.value].open;
    if (step < version || step - version >= open.size()) return false;
    const auto& lanes = open[step - version].lanes;
    if (lane >= lanes.size() || !lanes[lane].in) return false;
  }
  return true;
}

void ServerSteps::ChooseLanes(Step* step) {
  uint32_t whole = 0;
  for (const uint64_t word : step->whole) whole += static_cast<uint32_t>(std::popcount(word));
  if (whole >= step->needed) step->chosen = step->whole;
}

// The lanes that are chosen count once nobody can choose others: the replica of the deciding slice knows
// them, if there is one.
void ServerSteps::SettleDecisions() {
  if (strategy().backup == 0 || !slices_.Alive(SliceId(0))) return;
  const RemoteReplica& replica = slices_.At(SliceId(0)).replica;
  bool any = false;
  for (auto& [number, step] : steps_) {
    if (step.chosen.empty() || !step.counted.empty()) continue;
    if (replica.epoch != 0) {
      if (step.chosen_at.link != replica.link) {
        const auto sent = forwards_.ForwardChosen({number, step.width, step.needed, step.chosen});
        if (sent) step.chosen_at = *sent;
      }
      if (step.chosen_at.link != replica.link || !forwards_.Acknowledged(replica, step.chosen_at.number))
        continue;
    }
    step.counted = step.chosen;
    OnDecided(number, step);
    any = true;
  }
  if (any) CompleteAll();
}

// This server decides from now on. Lanes have arrived before, and their workers may be waiting.
void ServerSteps::DecideAgain() {
  if (strategy().backup == 0 || !Decides()) return;
  for (auto& [number, step] : steps_) {
    if (!step.backed_up() || !step.counted.empty() || !step.chosen.empty()) continue;
    step.whole.assign((step.width + 63) / 64, 0);
    uint32_t whole = 0;
    for (uint32_t lane = 0; lane < step.width && whole < step.needed; ++lane) {
      if (!step.runs[lane] || !IsWhole(number, lane)) continue;
      step.whole[lane / 64] |= uint64_t{1} << (lane % 64);
      ++whole;
    }
    ChooseLanes(&step);
  }
  SettleDecisions();
}

void ServerSteps::TakeDecided(const std::vector<DecidedStep>& decided) {
  for (const DecidedStep& known : decided) {
    Step* const step = OpenStepOf({known.step, 0, known.width, known.needed});
    if (!step || !step->counted.empty()) continue;
    step->counted = known.counted;
    OnDecided(known.step, *step);
  }
}

// A server that begins to choose lanes answers, for the last steps, what has been chosen.
void ServerSteps::AddDecided(std::vector<MoveAction>* actions) const {
  if (strategy().backup == 0) return;
  for (MoveAction& action : *actions) {
    SendMove* const send = std::get_if<SendMove>(&action);
    if (!send) continue;
    for (MovedSlice& moved : send->slices) {
      if (moved.slice->id != SliceId(0)) continue;
      for (const auto& [number, step] : steps_) {
        if (!step.counted.empty()) moved.decided.push_back({number, step.width, step.needed, step.counted});
      }
    }
  }
}

// ---- arriving lanes

SliceOutcome ServerSteps::TakeLane(HostedSlice* hosted, const PushRequest& request, const SliceRef& ref,
                                   std::span<const float> gradient, const Step** agreed) {
  StepLane step_lane = *request.step_lane;
  const uint64_t version = hosted->slice->version;
  if (const auto known = OutcomeOf(slices_.ledgers().Lookup(ref.slice.value))) return *known;
  if (step_lane.step < version) {
    // All runs that counted in the step are recorded.
    if (guards::AlreadyApplied(true)) return SliceOutcome::kLate;
    step_lane.step = version;  // only in the mutant without this check
  }
  SliceSteps& steps = slice_steps_[ref.slice.value];
  if (step_lane.step - version >= steps.open.size()) return SliceOutcome::kConflict;
  Step* step = OpenStepOf(step_lane);
  if (!step) return SliceOutcome::kConflict;
  auto& run = step->runs[step_lane.lane];
  const bool wanted = step->counted.empty() || step->Counts(step_lane.lane);
  if (!run && wanted) {
    if (claims_outdated_) RebuildClaims();
    if (claims_.Record(request.cut, request.run) != Ledger::Entry::kNew) return SliceOutcome::kConflict;
    run = RunId{request.cut, request.run};
    step->rate = request.rate;
    step->workers[step_lane.lane] = request.worker;
  } else if (run && step != *agreed && (run->run != request.run || run->cut != request.cut)) {
    return SliceOutcome::kConflict;
  }
  *agreed = step;
  OpenStep& open = steps.open[step_lane.step - version];
  open.lanes.resize(step->width);
  Lane& lane = open.lanes[step_lane.lane];
  if (lane.in || !wanted) return SliceOutcome::kHeld;
  const uint64_t staleness = step_lane.step - std::min(ref.version, step_lane.step);
  lane = {true, request.disposition, request.events,
          static_cast<uint32_t>(std::min<uint64_t>(staleness, UINT32_MAX))};
  ++open.in;
  hosted->lanes_end = std::max(hosted->lanes_end, step_lane.step + 1);
  if (step_lane.step == version && MayComplete(*hosted) && Complete(open, *step)) {
    CompleteSteps(hosted, step_lane.lane, gradient);
    return SliceOutcome::kApplied;
  }
  if (!slices_.job().config().modelled) Store(*hosted, &open, *step, step_lane.lane, gradient);
  return SliceOutcome::kHeld;
}

void ServerSteps::Store(const HostedSlice& hosted, OpenStep* open, const Step& step, uint32_t lane,
                        std::span<const float> gradient) {
  const uint64_t elements = hosted.slice->elements;
  const SliceRule& rule = slices_.job().RuleOf(hosted.slice->id);
  open->early.resize(step.width);
  const auto add = [&](std::span<const float> numbers, uint32_t events) {
    const bool first = !open->sum;
    if (first) open->sum = updates_.TakeBuffer(elements);
    rule.Add(first, FloatsIn(open->sum, elements), numbers, rule.mean.weight(events));
  };
  const bool now = !step.backed_up() && lane == open->added;
  if (open->lanes[lane].disposition == Disposition::kGradient) {
    if (now) {
      add(gradient, open->lanes[lane].events);
    } else {
      open->early[lane] = updates_.TakeBuffer(elements);
      std::memcpy(open->early[lane].data(), gradient.data(), gradient.size_bytes());
    }
  }
  if (!now) return;
  while (++open->added < step.width && open->lanes[open->added].in) {
    Buffer& early = open->early[open->added];
    if (!early) continue;
    add(FloatsIn(early, elements), open->lanes[open->added].events);
    updates_.GiveBuffer(std::exchange(early, {}));
  }
}

void ServerSteps::Clear(OpenStep* open) {
  updates_.GiveBuffer(std::exchange(open->sum, {}));
  for (Buffer& buffer : open->early) updates_.GiveBuffer(std::exchange(buffer, {}));
  open->lanes.clear();
  open->in = open->added = 0;
}

// ---- completing steps

bool ServerSteps::Complete(const OpenStep& open, const Step& step) {
  if (!step.backed_up()) return open.in == step.width;
  if (step.counted.empty() || open.lanes.size() < step.width) return false;
  for (uint32_t lane = 0; lane < step.width; ++lane) {
    if (step.Counts(lane) && !open.lanes[lane].in) return false;
  }
  return true;
}

void ServerSteps::CompleteAll() {
  std::vector<SliceId> changed;
  const bool deferred = updates_.Defer(true);
  for (auto& hosted : slices_.all()) {
    if (!hosted || !hosted->slice) continue;
    const uint64_t before = hosted->slice->version;
    CompleteSteps(&*hosted);
    if (hosted->replica.epoch != 0 && hosted->slice->version != before) changed.push_back(hosted->slice->id);
  }
  updates_.Defer(deferred);
  if (!deferred) updates_.RunAll();
  forwards_.ForwardDecided(changed, std::exchange(news_, {}));
}

void ServerSteps::CompleteSteps(HostedSlice* hosted, uint32_t lane, std::span<const float> gradient) {
  const SliceSteps& steps = StepsOf(*hosted);
  while (Step* step = FindStep(hosted->slice->version)) {
    if (!MayComplete(*hosted) || !Complete(steps.open.front(), *step)) break;
    CompleteStep(hosted, step, lane, gradient);
    gradient = {};
  }
  if (slices_.Hot(hosted->order.slice).moving) moves_.FreezeIfWhole(hosted);
}

void ServerSteps::CompleteStep(HostedSlice* hosted, Step* step, uint32_t lane,
                               std::span<const float> gradient) {
  Slice& slice = *hosted->slice;
  SliceSteps& steps = StepsOf(*hosted);
  OpenStep& open = steps.open.front();
  const uint64_t number = slice.version;
  uint64_t events = 0;
  std::optional<uint32_t> rejected_lane;
  const bool first = step->recorded.empty();
  for (uint32_t l = 0; l < step->width; ++l) {
    if (!step->Counts(l)) continue;
    const Lane& in = open.lanes[l];
    if (in.disposition == Disposition::kGradient) events += in.events;
    if (in.disposition == Disposition::kRejected && !rejected_lane) rejected_lane = l;
    if (first) step->recorded.push_back(*step->runs[l]);
  }
  const bool applied = !rejected_lane && events > 0;
  if (applied) {
    if (!slices_.job().config().modelled) UpdateByStep(hosted, *step, events, lane, gradient);
    slice.events += events;
    for (uint32_t l = 0; l < step->width; ++l) {
      if (step->Counts(l) && open.lanes[l].disposition == Disposition::kGradient && !hosted->is_replica) {
        figures_.Measure(open.lanes[l].staleness);
      }
    }
  } else {
    steps.previous = slice.memory;  // the values are those of the previous version
  }
  steps.has_previous = true;
  // Each step is counted once, however many slices it has here.
  if (number >= outcomes_recorded_) {
    outcomes_recorded_ = number + 1;
    if (applied) figures_.consecutive_rejected = 0;
    if (rejected_lane) {
      const RunId& run = *step->runs[*rejected_lane];
      figures_.Reject(RejectedRun{step->workers[*rejected_lane], run.cut, run.run});
    }
  }
  ++slice.version;
  slices_.ledgers().Record(slice.id.value, step->recorded);
  slices_.Hot(slice.id).ledger_outdated = true;
  Clear(&open);
  std::rotate(steps.open.begin(), steps.open.begin() + 1, steps.open.end());
  slices_.signals().wake_parked = true;
  if (slices_.WantsCopy(*hosted)) {
    slices_.Keep(hosted, forwards_.NumberOf(*hosted, true));
    // The reply to the next heartbeat allows it to be written.
    if (slices_.AllKept()) slices_.signals().heartbeat_urgent = true;
  }
  if (++step->completed >= slices_.live()) Prune();
}

void ServerSteps::UpdateByStep(HostedSlice* hosted, const Step& step, uint64_t events, uint32_t lane,
                               std::span<const float> gradient) {
  SliceSteps& steps = StepsOf(*hosted);
  if (steps.updating) updates_.RunAll();
  Slice& slice = *hosted->slice;
  OpenStep& open = steps.open.front();
  const SliceRule& rule = slices_.job().RuleOf(slice.id);
  const uint64_t elements = slice.elements;
  StepUpdate update{.updating = &steps.updating,
                    .rule = &rule,
                    .elements = elements,
                    .version = slice.version + 1,
                    .scale = rule.mean.scale(events),
                    .rate = rule.RateOf(step.rate),
                    .sum = std::exchange(open.sum, {})};
  update.has_sum = static_cast<bool>(update.sum);
  if (rule.whole && !update.sum) update.sum = updates_.TakeBuffer(elements);
  for (uint32_t l = open.added; l < step.width; ++l) {
    if (!step.Counts(l) || open.lanes[l].disposition != Disposition::kGradient) continue;
    StepUpdate::Addend addend{.numbers = gradient, .weight = rule.mean.weight(open.lanes[l].events)};
    if (l != lane || gradient.empty()) {
      addend.memory = std::exchange(open.early[l], {});
      addend.numbers = FloatsIn(addend.memory, elements);
    }
    update.addends.push_back(std::move(addend));
  }
  // The current values become those of the previous version. If the memory is referenced elsewhere, or there
  // are no slots to move, the update goes to new memory. Otherwise the values are copied and updated in
  // place.
  const bool moves = slice.memory.shared() || rule.slots == 0;
  update.from = slice.memory;
  if (moves) {
    updates_.GiveBuffer(std::exchange(steps.previous, {}));
    slice.memory = updates_.TakeMemory(update.from.size());
    steps.previous = update.from;
  } else {
    if (!steps.previous || steps.previous.shared()) steps.previous = updates_.TakeBuffer(elements);
    update.previous = steps.previous;
  }
  update.to = slice.memory;
  updates_.Add(std::move(update));
}

}  // namespace leat::protocol
