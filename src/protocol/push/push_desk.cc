#include "protocol/push/push_desk.h"

#include <array>
#include <bit>
#include <string>
#include <utility>

#include "base/check.h"
#include "protocol/guards.h"

namespace leat::protocol {

namespace {

Status Bad(const std::string& what, const std::string& request = "push") {
  return Status(Code::kInvalidArgument, request + ": " + what);
}

// The floats of payload of each slice.
void SetElements(const JobSlices& job, const PushRequest& request, std::vector<uint64_t>* elements) {
  if (!elements) return;
  elements->assign(request.slices.size(), 0);
  if (request.disposition != Disposition::kGradient) return;
  std::ranges::transform(request.slices, elements->begin(),
                         [&](const SliceRef& ref) { return job.ElementsOf(ref.slice); });
}

Status CheckRun(const JobSlices& job, const PushRequest& request) {
  const Cut& cut = request.cut;
  const auto& start = job.start();
  if (!cut.valid())
    return Bad("invalid cut (begin " + std::to_string(cut.begin.offset) + ", end " + std::to_string(cut.end) +
               ")");
  if (!start.empty() && cut.partition >= start.size()) {
    return Bad("partition " + std::to_string(cut.partition) + " of " + std::to_string(start.size()));
  }
  if (request.run >= cut.runs()) {
    return Bad("run " + std::to_string(request.run) + " of " + std::to_string(cut.runs()));
  }
  const uint64_t most = cut.EventsOf(request.run);
  const bool fits = request.disposition == Disposition::kEmpty ? request.events == 0
                    : request.disposition == Disposition::kGradient
                        ? request.events >= 1 && request.events <= most
                        : request.events <= most;
  if (!fits) return Bad(std::to_string(request.events) + " events in a batch of " + std::to_string(most));
  if (!ValidRate(request.rate)) return Bad("a learning rate times " + std::to_string(request.rate));
  return {};
}

Status CheckStepLane(const StrategyConfig& strategy, const PushRequest& request) {
  if (!strategy.stepped()) {
    if (request.step_lane || request.version_wanted > 0 || !request.counted.empty()) {
      return Bad("a step lane, but the strategy has no steps");
    }
    return {};
  }
  if (!request.step_lane) {
    if (request.disposition != Disposition::kPull) return Bad("a run without a step lane");
    return request.counted.empty() ? Status() : Bad("counted lanes without a step lane");
  }
  const StepLane& step_lane = *request.step_lane;
  if (!FitsStrategy(step_lane, strategy)) {
    const std::string has = strategy.auto_lanes ? std::to_string(strategy.backup) + " more than count"
                                                : std::to_string(strategy.total_lanes()) + " and " +
                                                      std::to_string(strategy.lanes);
    return Bad("a step of " + std::to_string(step_lane.width) + " lanes, of which " +
               std::to_string(step_lane.needed) + " count; the job has " + has);
  }
  if (step_lane.lane >= step_lane.width) {
    return Bad("lane " + std::to_string(step_lane.lane) + " of " + std::to_string(step_lane.width));
  }
  if (request.counted.empty()) return {};
  if (step_lane.needed == step_lane.width || request.counted.size() != (step_lane.width + 63) / 64) {
    return Bad("counted lanes beyond the step's " + std::to_string(step_lane.width));
  }
  uint32_t chosen = 0;
  for (const uint64_t word : request.counted) chosen += static_cast<uint32_t>(std::popcount(word));
  const bool beyond = step_lane.width % 64 != 0 && request.counted.back() >> (step_lane.width % 64) != 0;
  if (beyond || chosen != step_lane.needed) {
    return Bad(std::to_string(chosen) + " counted lanes of " + std::to_string(step_lane.width) + "; " +
               std::to_string(step_lane.needed) + " are needed");
  }
  return {};
}

Status CheckPush(const JobSlices& job, const PushRequest& request, std::vector<uint64_t>* elements) {
  const SliceRef* before = nullptr;
  for (const SliceRef& ref : request.slices) {
    const SliceId id = ref.slice;
    if (id.value >= job.size()) return Bad("slice " + ToString(id) + " of " + std::to_string(job.size()));
    if (before && id <= before->slice) return Bad("slice " + ToString(id) + " is out of order");
    before = &ref;
  }
  SetElements(job, request, elements);
  if (request.disposition > Disposition::kRejected) return Bad("unknown disposition");
  LEAT_RETURN_IF_ERROR(CheckStepLane(job.config().strategy, request));
  return request.disposition == Disposition::kPull ? Status() : CheckRun(job, request);
}

}  // namespace

PushDesk::PushDesk(ServerConfig config)
    : slices_(std::move(config)),
      forwards_(slices_),
      moves_(slices_, forwards_),
      orders_(slices_, moves_),
      steps_(view_, slices_, forwards_, moves_, figures_) {}

Status PushDesk::Begin(const PushRequest& request, std::vector<uint64_t>* elements) {
  LEAT_RETURN_IF_ERROR(CheckPush(slices_.job(), request, elements));
  if (view_.Refuses(request)) {
    ++figures_.progress.refused;
    return {};
  }
  if (!request.counted.empty()) LEAT_RETURN_IF_ERROR(steps_.TakeCounted(request));
  ++(request.disposition == Disposition::kPull ? figures_.progress.pulls : figures_.progress.pushes);
  return {};
}

SliceOutcome PushDesk::Take(Slice* slice, const PushRequest& request, const SliceRef& ref,
                            std::span<const float> gradient, const ServerSteps::Step** agreed) {
  if (slices_.stepped()) return steps_.TakeLane(&slices_.At(ref.slice), request, ref, gradient, agreed);
  if (const auto known = OutcomeOf(slices_.ledgers().Record(ref.slice.value))) return *known;
  slices_.Hot(ref.slice).ledger_outdated = true;
  if (request.disposition == Disposition::kGradient) {
    Update(slice, gradient, ref.version, request.rate);
    slice->events += request.events;
  }
  return SliceOutcome::kApplied;
}

void PushDesk::ApplySlices(const PushRequest& request, std::span<const SliceRef> slices,
                           std::span<const std::span<const float>> gradients, SliceReply* replies,
                           const Buffer& memory) {
  const bool here = !view_.NotInView(request);
  const bool pull = request.disposition == Disposition::kPull;
  const bool gradient = request.disposition == Disposition::kGradient;
  const bool subscriber = view_.IsSubscriber(request.worker);
  const bool modelled = slices_.job().config().modelled;
  const ServerSteps::Step* agreed = nullptr;
  slices_.ledgers().SelectRun(request.cut, request.run);
  taken_.clear();
  for (size_t i = 0; i < slices.size(); ++i) {
    const SliceRef& ref = slices[i];
    SliceReply& reply = replies[i];
    reply = {ref.slice, SliceOutcome::kNotHere, false, ref.incarnation, 0};
    HotSlice& hot = slices_.Hot(ref.slice);
    Slice* const slice = hot.alive;
    // A subscriber says what it has, whatever has become of it.
    const bool same = slice && (subscriber || guards::SameIncarnation(ref.incarnation, slice->incarnation));
    if (!same || !here) {
      if (!slice && here && !pull && moves_.Arriving({ref.slice, ref.incarnation}))
        reply.outcome = SliceOutcome::kMoving;
      continue;
    }
    const auto numbers = gradients.empty() ? std::span<const float>() : gradients[i];
    LEAT_CHECK(!gradient || modelled || numbers.size() == slice->elements);
    HostedSlice* const moving = hot.moving ? &slices_.At(ref.slice) : nullptr;
    if (moving && moving->handed_over) continue;
    ++hot.requests;
    if (gradient) hot.bytes += slice->elements * sizeof(float);
    if (pull) {
      reply.outcome = SliceOutcome::kPulled;
    } else if (moving && moves_.HeldBack(moving, request)) {
      reply.outcome = moves_.OutcomeOfHeldBack(*moving, request);
    } else {
      const uint64_t before = slice->version;
      reply.outcome = Take(slice, request, ref, numbers, &agreed);
      const bool taken = reply.outcome == SliceOutcome::kApplied || reply.outcome == SliceOutcome::kHeld;
      if (taken && hot.replicated) taken_.push_back({i, slice->version != before});
    }
    if (reply.outcome == SliceOutcome::kDuplicate) ++figures_.progress.duplicates;
    if (reply.outcome == SliceOutcome::kConflict) ++figures_.progress.conflicts;
    reply.version = slice->version;
    if (subscriber) reply.incarnation = slice->incarnation;
    reply.values = request.want_values && reply.outcome != SliceOutcome::kConflict &&
                   reply.outcome != SliceOutcome::kMoving;
    if (subscriber && ref.incarnation == slice->incarnation && ref.version == slice->version)
      reply.values = false;
  }
  if (!taken_.empty()) forwards_.ForwardTaken(request, slices, taken_, gradients, memory);
}

void PushDesk::ApplyAll(const PushRequest& request, std::span<const std::span<const float>> gradients,
                        std::vector<SliceReply>* replies, const Buffer& memory) {
  LEAT_CHECK(gradients.size() == request.slices.size() || gradients.empty());
  replies->resize(request.slices.size());
  steps_.updates().Defer(true);
  ApplySlices(request, request.slices, gradients, replies->data(), memory);
  steps_.updates().RunDeferred();
}

void PushDesk::UpdateValues(Slice* slice, std::span<const float> gradient, uint64_t staleness, float rate) {
  const JobSlices& job = slices_.job();
  const ServerConfig& config = job.config();
  if (std::exchange(slices_.Hot(slice->id).being_saved, false) && (!config.saved || !config.saved(*slice))) {
    job.MoveToNewMemory(slice);
  }
  const SliceRule& rule = job.RuleOf(slice->id);
  std::array<std::span<float>, optim::kMaxSlots> slot_spans;
  LEAT_CHECK(rule.slots <= slot_spans.size());
  for (uint32_t i = 0; i < rule.slots; ++i) slot_spans[i] = slice->slot(i);
  const float scale =
      config.strategy.staleness_aware && staleness > 1 ? 1.0f / static_cast<float>(staleness) : 1.0f;
  rule.Apply(slice->values(), gradient, std::span(slot_spans).first(rule.slots), slice->version,
             scale * rule.RateOf(rate));
}

std::optional<PushReply> PushDesk::Finish(uint64_t ticket, const PushRequest& request,
                                          std::vector<SliceReply> slices) {
  if (request.disposition == Disposition::kRejected || request.disposition == Disposition::kGradient) {
    const bool recorded = !slices_.stepped() && std::ranges::any_of(slices, [](const SliceReply& slice) {
      return slice.outcome == SliceOutcome::kApplied;
    });
    if (recorded && request.disposition == Disposition::kGradient) {
      figures_.consecutive_rejected = 0;
    } else if (recorded) {
      figures_.Reject(RejectedRun{request.worker, request.cut, request.run});
    }
  }
  if (request.step_lane && !view_.Refuses(request)) steps_.Decide(request);
  std::vector<LinkNumber> numbers = forwards_.NumbersOf(slices);
  Parked parked{ticket, false, request, std::move(slices), std::move(numbers)};
  if (!Waits(parked)) return Answer(std::move(parked));
  parked_.push_back(std::move(parked));
  return std::nullopt;
}

// ---- forwards

Status PushDesk::BeginForward(const ForwardRequest& request, std::vector<uint64_t>* elements) const {
  const JobSlices& job = slices_.job();
  const PushRequest& push = request.push;
  if (request.epochs.size() != push.slices.size() || request.versions.size() != push.slices.size())
    return Bad("its slices do not fit", "forward");
  const SliceRef* before = nullptr;
  for (const SliceRef& ref : push.slices) {
    if (ref.slice.value >= job.size() || (before && ref.slice <= before->slice))
      return Bad("slice " + ToString(ref.slice) + " is unknown or out of order", "forward");
    before = &ref;
  }
  SetElements(job, push, elements);
  if (push.disposition > Disposition::kRejected || !push.counted.empty())
    return Bad("no forwarded push", "forward");
  LEAT_RETURN_IF_ERROR(CheckStepLane(job.config().strategy, push));
  if (push.disposition != Disposition::kPull) LEAT_RETURN_IF_ERROR(CheckRun(job, push));
  for (const DecidedStep& decided : request.decided) {
    if (!job.stepped() || !FitsStrategy(decided, job.config().strategy))
      return Bad("wrong lanes of step " + std::to_string(decided.step), "forward");
  }
  return {};
}

ForwardReply PushDesk::TakeForward(const ForwardRequest& request,
                                   std::span<const std::span<const float>> gradients) {
  ForwardReply reply;
  if (!orders_.TakeNumber(request, &reply)) return reply;
  const PushRequest& push = request.push;
  figures_.forwarding = true;
  steps_.TakeDecided(request.decided);
  const ServerSteps::Step* agreed = nullptr;
  slices_.ledgers().SelectRun(push.cut, push.run);
  steps_.updates().Defer(true);
  for (size_t i = 0; i < push.slices.size(); ++i) {
    HostedSlice* const hosted = orders_.ReplicaOf(push.slices[i], request.epochs[i]);
    if (slices_.changed()) steps_.OnChanges(slices_.TakeChanges());
    const auto numbers = gradients.empty() ? std::span<const float>() : gradients[i];
    if (hosted) hosted->diverged = !TakeForwarded(hosted, request, i, numbers, &agreed);
    if (!hosted || hosted->diverged) reply.refused.push_back(push.slices[i].slice);
  }
  steps_.updates().RunDeferred();
  figures_.forwarding = false;
  steps_.CompleteDecided();
  if (!reply.refused.empty()) slices_.signals().heartbeat_urgent = true;
  return reply;
}

bool PushDesk::TakeForwarded(HostedSlice* hosted, const ForwardRequest& request, size_t i,
                             std::span<const float> gradient, const ServerSteps::Step** agreed) {
  const PushRequest& push = request.push;
  const bool stepped = slices_.stepped();
  SliceOutcome outcome = SliceOutcome::kPulled;
  if (stepped) steps_.SetReach(push.slices[i].slice, request.versions[i]);
  if (push.disposition == Disposition::kPull) {
    if (stepped) steps_.CompleteSteps(hosted);
  } else {
    LEAT_CHECK(push.disposition != Disposition::kGradient || slices_.job().config().modelled ||
               gradient.size() == hosted->slice->elements);
    outcome = Take(hosted->slice.get(), push, push.slices[i], gradient, agreed);
  }
  const bool taken =
      outcome == SliceOutcome::kPulled || outcome == SliceOutcome::kApplied || outcome == SliceOutcome::kHeld;
  return taken && hosted->slice->version == request.versions[i];
}

// ---- parked requests

// True if a slice that does not take the run still moves, if a replica is not known to have what would be
// said of it, or else if a version that it waits for is missing.
bool PushDesk::Unready(const Parked& request) {
  const PushHeader& header = request.request;
  if (view_.NotInView(header)) return false;
  bool held_back = false, moves = false, unconfirmed = false, conflict = false;
  for (const SliceReply& slice : request.slices) {
    unconfirmed = unconfirmed || forwards_.Unconfirmed(slice, request.numbers);
    conflict = conflict || slice.outcome == SliceOutcome::kConflict;
    if (slice.outcome != SliceOutcome::kMoving) continue;
    held_back = true;
    moves = moves || moves_.StillMoving(slice);
  }
  if (unconfirmed) return true;
  if (conflict) return false;
  if (held_back) return moves;
  bool below = false;
  for (const SliceReply& slice : request.slices) {
    const Slice* alive = slices_.Alive(slice.slice);
    if (!alive || alive->incarnation != slice.incarnation) return false;
    if (slices_.Hot(slice.slice).moving && slices_.At(slice.slice).handed_over) return false;
    below = below || alive->version < header.version_wanted;
  }
  return below;
}

bool PushDesk::Waits(const Parked& request) {
  const auto& slices = request.slices;
  if (forwards_.any() && std::ranges::any_of(slices, [&](const SliceReply& slice) {
        return forwards_.Unconfirmed(slice, request.numbers);
      }))
    return true;
  if (moves_.any()) {
    const auto has = [&](SliceOutcome outcome) {
      return std::ranges::count(slices, outcome, &SliceReply::outcome) > 0;
    };
    if (has(SliceOutcome::kMoving)) return !has(SliceOutcome::kConflict) && Unready(request);
  }
  if (!request.request.want_values || request.request.version_wanted == 0) return false;
  for (const SliceReply& slice : slices) {
    if (slice.outcome == SliceOutcome::kNotHere || slice.outcome == SliceOutcome::kConflict) return false;
  }
  return Unready(request);
}

PushReply PushDesk::Answer(Parked waited) {
  const PushHeader& request = waited.request;
  PushReply reply{
      request.sequence, view_.view().generation, view_.NotInView(request), {}, std::move(waited.slices)};
  const bool by_steps = slices_.stepped();
  const bool subscriber = view_.IsSubscriber(request.worker);
  if (by_steps) slices_.ledgers().SelectRun(request.cut, request.run);
  for (SliceReply& slice : reply.slices) {
    // The slice may have been ordered away since its Apply.
    const Slice* const alive = slices_.Alive(slice.slice);
    const bool here = alive && alive->incarnation == slice.incarnation;
    if (!here) slice.values = false;
    if (slice.outcome == SliceOutcome::kMoving) {
      const bool stays = here ? !slices_.At(slice.slice).handed_over : moves_.StillMoving(slice);
      if (!stays || reply.evicted) slice.outcome = SliceOutcome::kNotHere;
      continue;
    }
    // The wait has ended before its replica had it.
    if (!here && !waited.numbers.empty()) slice.outcome = SliceOutcome::kNotHere;
    if (here && forwards_.Unconfirmed(slice, waited.numbers)) {
      slice.values = false;
      slice.version = 0;
      if (request.disposition != Disposition::kPull)
        slice.outcome = reply.evicted ? SliceOutcome::kNotHere : SliceOutcome::kMoving;
      continue;
    }
    // The subscriber has this version; another one may have replaced it meanwhile.
    if (here && !slice.values && slice.outcome == SliceOutcome::kPulled && subscriber) continue;
    // Others have changed it meanwhile.
    if (!by_steps && here && !waited.numbers.empty()) slice.version = alive->version;
    if (!by_steps || slice.outcome == SliceOutcome::kNotHere) continue;
    if (!here) {
      slice.outcome = SliceOutcome::kNotHere;
      slice.version = 0;
      continue;
    }
    // The step may have been completed since its Apply, with or without the run.
    if (slice.outcome == SliceOutcome::kHeld && alive->version > request.step_lane->step) {
      // All lanes complete a step, unless some are backups.
      const bool counts = request.step_lane->needed == request.step_lane->width ||
                          slices_.ledgers().Lookup(slice.slice.value) == Ledger::Entry::kDuplicate;
      slice.outcome = counts ? SliceOutcome::kApplied : SliceOutcome::kLate;
    }
    slice.version = alive->version;
    slice.values = slice.values && !waited.expired && alive->version >= request.version_wanted;
    if (slice.values && request.exact && alive->version == request.version_wanted + 1 &&
        steps_.Previous(slice.slice)) {
      slice.version = request.version_wanted;
    }
  }
  for (const SliceReply& slice : reply.slices) {
    if (slice.values) slices_.Hot(slice.slice).bytes += slices_.Alive(slice.slice)->elements * sizeof(float);
  }
  if (request.step_lane && request.step_lane->needed < request.step_lane->width &&
      slices_.Alive(SliceId(0)) && !reply.evicted) {
    if (const auto* step = steps_.FindStep(request.step_lane->step)) reply.counted = step->counted;
  }
  return reply;
}

std::vector<PushDesk::Ready> PushDesk::TakeReady() {
  std::vector<Ready> ready;
  if (!std::exchange(slices_.signals().wake_parked, false) || parked_.empty()) return ready;
  size_t kept = 0;
  for (Parked& parked : parked_) {
    if (!parked.expired && Unready(parked)) {
      if (&parked_[kept] != &parked) parked_[kept] = std::move(parked);
      ++kept;
    } else {
      const uint64_t ticket = parked.ticket;
      ready.push_back({ticket, Answer(std::move(parked))});
    }
  }
  parked_.resize(kept);
  return ready;
}

PushDesk::HeldValues PushDesk::Values(SliceId slice, uint64_t version) const {
  const Slice* alive = slices_.Alive(slice);
  LEAT_CHECK(alive != nullptr);
  const Buffer* const previous = steps_.Previous(slice);
  if (previous && version + 1 == alive->version) {
    return {*previous, {reinterpret_cast<const float*>(previous->data()), alive->elements}};
  }
  return {alive->memory, alive->values()};
}

}  // namespace leat::protocol
