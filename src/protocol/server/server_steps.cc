// The open steps of stepped strategies. Lanes arrive in any order, slice by slice. A slice completes its step
// when all lanes that count have arrived, adding them in lane order. Moments are merged in lane order
// instead.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "protocol/guards.h"
#include "protocol/server/server_state.h"

namespace leat::protocol {

namespace {

// Elements of a step that are added and updated while they are in the innermost cache.
constexpr uint64_t kChunk = 4096;
// The minimum size of updates that are spread over threads: waking them costs as much as some ten thousand
// elements.
constexpr uint64_t kWorthSharing = uint64_t{1} << 17;

std::span<float> Floats(const Buffer& buffer, uint64_t elements) {
  return {reinterpret_cast<float*>(buffer.data()), elements};
}

void Copy(std::span<float> to, std::span<const float> from) {
  std::memcpy(to.data(), from.data(), from.size_bytes());
}

}  // namespace

Buffer Server::State::TakeBuffer(uint64_t elements) {
  return TakeMemory(elements * sizeof(float));
}

Buffer Server::State::TakeMemory(uint64_t bytes) {
  auto& buffers = spare[bytes];
  if (buffers.empty()) return NewMemory(bytes);
  Buffer buffer = std::move(buffers.back());
  buffers.pop_back();
  return buffer;
}

void Server::State::GiveBuffer(Buffer buffer) {
  if (buffer && !buffer.shared()) spare[buffer.size()].push_back(std::move(buffer));
}

void Server::State::Clear(OpenStep* open) {
  GiveBuffer(std::exchange(open->sum, {}));
  for (Buffer& buffer : open->early) GiveBuffer(std::exchange(buffer, {}));
  open->lanes.clear();
  open->in = open->added = 0;
}

// ---- the state of a step

void Server::State::FindAnother(uint64_t step) {
  const auto at = steps.find(step);
  found = at == steps.end() ? nullptr : &at->second;
  found_number = step;
}

Server::State::Step* Server::State::MakeStep(const StepLane& step_lane) {
  if (steps.size() >= kMaxSteps + config.strategy.ahead()) return nullptr;
  Step& step = steps[step_lane.step];
  step.width = step_lane.width;
  step.needed = step_lane.needed;
  step.runs.resize(step_lane.width);
  step.workers.resize(step_lane.width);
  return &step;
}

void Server::State::Prune() {
  uint64_t lowest = UINT64_MAX;
  for (const HotSlice& slice : hot) {
    if (const Slice* held = Held(slice)) lowest = std::min(lowest, held->version);
  }
  if (count_alive == 0) return;
  steps.erase(steps.begin(), steps.lower_bound(lowest - std::min(lowest, kRemembered)));
  found = nullptr;
}

// Rebuilds the claims from the lanes that may still count and the ledger of the slice that is least advanced.
// A slice that has moved here may have runs that the others still wait for.
void Server::State::RebuildClaims() {
  claims_outdated = false;
  const Slice* least = nullptr;
  for (const HotSlice& slice : hot) {
    const Slice* const held = Held(slice);
    if (held && (!least || held->version < least->version)) least = held;
  }
  if (!least) return;
  claims = ledgers.Get(least->id.value);
  for (const auto& [number, step] : steps) {
    for (uint32_t lane = 0; lane < step.width; ++lane) {
      const auto& run = step.runs[lane];
      if (run && (step.counted.empty() || step.Counts(lane))) claims.Record(run->cut, run->run);
    }
  }
}

Status Server::State::TakeCounted(const PushRequest& request) {
  const bool here = !request.slices.empty() && std::ranges::all_of(request.slices, [&](const SliceRef& ref) {
    const Slice* slice = Alive(ref.slice);
    return slice && guards::SameIncarnation(ref.incarnation, slice->incarnation);
  });
  if (!here || NotInView(request)) return {};  // perhaps of another history
  const StepLane& step_lane = *request.step_lane;
  Step* step = FindStep(step_lane.step);
  if (!step) {
    const bool open = std::ranges::any_of(hosted_slices, [&](const auto& hosted) {
      return hosted && hosted->slice && hosted->slice->version <= step_lane.step &&
             step_lane.step <= hosted->slice->version + config.strategy.ahead();
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
  NoteDecided(step_lane.step, *step);
  CompleteAll();
  return {};
}

void Server::State::Decide(const PushRequest& request) {
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
bool Server::State::IsWhole(uint64_t step, uint32_t lane) const {
  for (const auto& hosted : hosted_slices) {
    // The lanes of one that moves go to another server.
    if (!hosted || !hosted->slice || hosted->frozen || hosted->is_replica) continue;
    const uint64_t version = hosted->slice->version;
    if (step < version || step - version >= hosted->open.size()) return false;
    const auto& lanes = hosted->open[step - version].lanes;
    if (lane >= lanes.size() || !lanes[lane].in) return false;
  }
  return true;
}

void Server::State::ChooseLanes(Step* step) {
  uint32_t whole = 0;
  for (const uint64_t word : step->whole) whole += static_cast<uint32_t>(std::popcount(word));
  if (whole >= step->needed) step->chosen = step->whole;
}

// The lanes that are chosen count once nobody can choose others: the replica of the deciding slice knows
// them, if there is one.
void Server::State::SettleDecisions() {
  if (config.strategy.backup == 0 || !Alive(SliceId(0))) return;
  const RemoteReplica& replica = hosted_slices[0]->replica;
  bool any = false;
  for (auto& [number, step] : steps) {
    if (step.chosen.empty() || !step.counted.empty()) continue;
    if (replica.epoch != 0) {
      if (step.chosen_at.link != replica.link) ForwardChosen(number, &step);
      if (step.chosen_at.link != replica.link || !Acknowledged(replica, step.chosen_at.number)) continue;
    }
    step.counted = step.chosen;
    NoteDecided(number, step);
    any = true;
  }
  if (any) CompleteAll();
}

// This server decides from now on. Lanes have arrived before, and their workers may be waiting.
void Server::State::DecideAgain() {
  if (config.strategy.backup == 0 || !Decides()) return;
  for (auto& [number, step] : steps) {
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

// ---- arriving lanes

SliceOutcome Server::State::TakeLane(HostedSlice* hosted, const PushRequest& request, const SliceRef& ref,
                                     std::span<const float> gradient, const Step** agreed) {
  StepLane step_lane = *request.step_lane;
  const uint64_t version = hosted->slice->version;
  if (const auto known = OutcomeOf(ledgers.Lookup(ref.slice.value))) return *known;
  if (step_lane.step < version) {
    // All runs that counted in the step are recorded.
    if (guards::AlreadyApplied(true)) return SliceOutcome::kLate;
    step_lane.step = version;  // only in the mutant without this check
  }
  if (step_lane.step - version >= hosted->open.size()) return SliceOutcome::kConflict;
  Step* step = OpenStepOf(step_lane);
  if (!step) return SliceOutcome::kConflict;
  auto& run = step->runs[step_lane.lane];
  const bool wanted = step->counted.empty() || step->Counts(step_lane.lane);
  if (!run && wanted) {
    if (claims_outdated) RebuildClaims();
    if (claims.Record(request.cut, request.run) != Ledger::Entry::kNew) return SliceOutcome::kConflict;
    run = RunId{request.cut, request.run};
    step->rate = request.rate;
    step->workers[step_lane.lane] = request.worker;
  } else if (run && step != *agreed && (run->run != request.run || run->cut != request.cut)) {
    return SliceOutcome::kConflict;
  }
  *agreed = step;
  OpenStep& open = hosted->open[step_lane.step - version];
  open.lanes.resize(step->width);
  Lane& lane = open.lanes[step_lane.lane];
  if (lane.in || !wanted) return SliceOutcome::kHeld;
  const uint64_t staleness = step_lane.step - std::min(ref.version, step_lane.step);
  lane = {true, request.disposition, request.events,
          static_cast<uint32_t>(std::min<uint64_t>(staleness, UINT32_MAX))};
  ++open.in;
  if (step_lane.step == version && MayComplete(*hosted) && Complete(open, *step)) {
    CompleteSteps(hosted, step_lane.lane, gradient);
    return SliceOutcome::kApplied;
  }
  if (!config.modelled) Keep(hosted, &open, *step, step_lane.lane, gradient);
  return SliceOutcome::kHeld;
}

void Server::State::Keep(HostedSlice* hosted, OpenStep* open, const Step& step, uint32_t lane,
                         std::span<const float> gradient) {
  const uint64_t elements = hosted->slice->elements;
  const Rule& rule = RuleOf(hosted->slice->id);
  open->early.resize(step.width);
  const auto add = [&](std::span<const float> numbers, uint32_t events) {
    const bool first = !open->sum;
    if (first) open->sum = TakeBuffer(elements);
    rule.Add(first, Floats(open->sum, elements), numbers, rule.mean.weight(events));
  };
  const bool now = !step.backed_up() && lane == open->added;
  if (open->lanes[lane].disposition == Disposition::kGradient) {
    if (now) {
      add(gradient, open->lanes[lane].events);
    } else {
      open->early[lane] = TakeBuffer(elements);
      Copy(Floats(open->early[lane], elements), gradient);
    }
  }
  if (!now) return;
  while (++open->added < step.width && open->lanes[open->added].in) {
    Buffer& early = open->early[open->added];
    if (!early) continue;
    add(Floats(early, elements), open->lanes[open->added].events);
    GiveBuffer(std::exchange(early, {}));
  }
}

// ---- completing steps

bool Server::State::Complete(const OpenStep& open, const Step& step) const {
  if (!step.backed_up()) return open.in == step.width;
  if (step.counted.empty() || open.lanes.size() < step.width) return false;
  for (uint32_t lane = 0; lane < step.width; ++lane) {
    if (step.Counts(lane) && !open.lanes[lane].in) return false;
  }
  return true;
}

void Server::State::NoteDecided(uint64_t number, const Step& step) {
  claims_outdated = true;
  decided_news.push_back({number, step.width, step.needed, step.counted});
}

void Server::State::CompleteAll() {
  std::vector<SliceId> changed;
  const bool deferred = std::exchange(defer_updates, true);
  for (auto& hosted : hosted_slices) {
    if (!hosted || !hosted->slice) continue;
    const uint64_t before = hosted->slice->version;
    CompleteSteps(&*hosted);
    if (hosted->replica.epoch != 0 && hosted->slice->version != before) changed.push_back(hosted->slice->id);
  }
  defer_updates = deferred;
  if (!defer_updates) RunUpdates();
  ForwardCompleted(changed);
}

void Server::State::CompleteSteps(HostedSlice* hosted, uint32_t lane, std::span<const float> gradient) {
  while (Step* step = FindStep(hosted->slice->version)) {
    if (!MayComplete(*hosted) || !Complete(hosted->open.front(), *step)) break;
    CompleteStep(hosted, step, lane, gradient);
    gradient = {};
  }
  if (hot[hosted->order.slice.value].moving) FreezeIfWhole(hosted);
}

void Server::State::CompleteStep(HostedSlice* hosted, Step* step, uint32_t lane,
                                 std::span<const float> gradient) {
  Slice& slice = *hosted->slice;
  OpenStep& open = hosted->open.front();
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
    if (!config.modelled) UpdateByStep(hosted, *step, events, lane, gradient);
    slice.events += events;
    for (uint32_t l = 0; l < step->width; ++l) {
      if (step->Counts(l) && open.lanes[l].disposition == Disposition::kGradient && !hosted->is_replica) {
        Measure(open.lanes[l].staleness);
      }
    }
  } else {
    hosted->previous = slice.memory;  // the values are those of the previous version
  }
  hosted->has_previous = true;
  RecordStepOutcome(number, *step, rejected_lane, applied);
  ++slice.version;
  ledgers.Record(slice.id.value, step->recorded);
  hot[slice.id.value].ledger_outdated = true;
  Clear(&open);
  std::rotate(hosted->open.begin(), hosted->open.begin() + 1, hosted->open.end());
  wake = true;
  if (waiting_save && waiting_save->version == slice.version && !hosted->to_save && !hosted->is_replica) {
    KeepForSave(hosted, true);
    // The reply to the next heartbeat allows it to be written.
    heartbeat_urgent = heartbeat_urgent || std::ranges::all_of(hosted_slices, [&](const auto& p) {
                         return !p || p->is_replica || p->to_save || p->saved >= waiting_save->id;
                       });
  }
  if (++step->completed >= count_alive) Prune();
}

void Server::State::UpdateByStep(HostedSlice* hosted, const Step& step, uint64_t events, uint32_t lane,
                                 std::span<const float> gradient) {
  if (hosted->updating) RunUpdates();
  Slice& slice = *hosted->slice;
  OpenStep& open = hosted->open.front();
  const Rule& rule = RuleOf(slice.id);
  const uint64_t elements = slice.elements;
  StepUpdate update{.hosted = hosted,
                    .rule = &rule,
                    .elements = elements,
                    .version = slice.version + 1,
                    .scale = rule.mean.scale(events),
                    .rate = rule.RateOf(step.rate),
                    .sum = std::exchange(open.sum, {})};
  update.has_sum = static_cast<bool>(update.sum);
  if (rule.whole && !update.sum) update.sum = TakeBuffer(elements);
  for (uint32_t l = open.added; l < step.width; ++l) {
    if (!step.Counts(l) || open.lanes[l].disposition != Disposition::kGradient) continue;
    StepUpdate::Part part{.numbers = gradient, .weight = rule.mean.weight(open.lanes[l].events)};
    if (l != lane || gradient.empty()) {
      part.memory = std::exchange(open.early[l], {});
      part.numbers = Floats(part.memory, elements);
    }
    update.parts.push_back(std::move(part));
  }
  // The current values become those of the previous version. If the memory is referenced elsewhere, or there
  // are no slots to move, the update goes to new memory. Otherwise the values are copied and updated in
  // place.
  const bool moves = slice.memory.shared() || rule.slots == 0;
  update.from = slice.memory;
  if (moves) {
    GiveBuffer(std::exchange(hosted->previous, {}));
    slice.memory = TakeMemory(update.from.size());
    hosted->previous = update.from;
  } else {
    if (!hosted->previous || hosted->previous.shared()) hosted->previous = TakeBuffer(elements);
    update.previous = hosted->previous;
  }
  update.to = slice.memory;
  if (!defer_updates) {
    Run(update);
    return Give(std::move(update));
  }
  hosted->updating = true;
  updates.push_back(std::move(update));
}

// Pure: other updates may run at the same time.
void Server::State::Run(const StepUpdate& update) {
  const Rule& rule = *update.rule;
  const uint64_t elements = update.elements, most = rule.whole ? elements : std::min(elements, kChunk);
  std::array<float, kChunk> chunk;
  LEAT_CHECK(rule.slots <= optim::kMaxSlots);
  const std::span<float> to = Floats(update.to, elements * (1 + rule.slots));
  const std::span<float> from = Floats(update.from, elements * (1 + rule.slots));
  for (uint64_t begin = 0; begin < elements; begin += most) {
    const uint64_t n = std::min(most, elements - begin);
    const std::span<float> sum =
        update.sum ? Floats(update.sum, elements).subspan(begin, n) : std::span(chunk).first(n);
    for (size_t i = 0; i < update.parts.size(); ++i) {
      const auto& part = update.parts[i];
      rule.Add(i == 0 && !update.has_sum, sum, part.numbers.subspan(begin, n), part.weight);
    }
    if (!rule.moments()) optim::Scale(sum, update.scale);
    if (update.previous) Copy(Floats(update.previous, elements).subspan(begin, n), from.subspan(begin, n));
    std::array<std::span<float>, 1 + optim::kMaxSlots> at;  // values, slot 0, …
    for (uint32_t i = 0; i <= rule.slots; ++i) {
      at[i] = to.subspan(i * elements + begin, n);
      if (!update.previous) Copy(at[i], from.subspan(i * elements + begin, n));
    }
    rule.Apply(at[0], sum, std::span(at).subspan(1, rule.slots), update.version, update.rate);
  }
}

void Server::State::RunUpdates() {
  uint64_t elements = 0;
  for (const StepUpdate& update : updates) elements += update.elements;
  if (config.run_parts && elements >= kWorthSharing && updates.size() > 1) {
    config.run_parts(updates.size(), [this](size_t i) { Run(updates[i]); });
  } else {
    for (const StepUpdate& update : updates) Run(update);
  }
  for (StepUpdate& update : updates) {
    update.hosted->updating = false;
    Give(std::move(update));
  }
  updates.clear();
}

void Server::State::Give(StepUpdate update) {
  GiveBuffer(std::move(update.sum));
  for (auto& part : update.parts) GiveBuffer(std::move(part.memory));
}

// Counts each step once, however many slices it has here.
void Server::State::RecordStepOutcome(uint64_t number, const Step& step,
                                      std::optional<uint32_t> rejected_lane, bool applied) {
  if (number < outcomes_recorded) return;
  outcomes_recorded = number + 1;
  if (applied) consecutive_rejected = 0;
  if (!rejected_lane) return;
  ++consecutive_rejected;
  ++progress.skipped;
  const RunId& run = *step.runs[*rejected_lane];
  rejected = RejectedRun{step.workers[*rejected_lane], run.cut, run.run};
}

}  // namespace leat::protocol
