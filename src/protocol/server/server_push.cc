// The data plane: requests are checked, applied slice by slice, and answered at once or when the version that
// they wait for is reached.
#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/check.h"
#include "protocol/guards.h"
#include "protocol/server/server_state.h"

namespace leat::protocol {

namespace {

Status BadPush(std::string what) {
  return Status(Code::kInvalidArgument, "push: " + std::move(what));
}

}  // namespace

Status Server::State::CheckRun(const PushRequest& request) const {
  const Cut& cut = request.cut;
  if (!cut.valid())
    return BadPush("invalid cut (begin " + std::to_string(cut.begin.offset) + ", end " +
                   std::to_string(cut.end) + ")");
  if (!start.empty() && cut.partition >= start.size()) {
    return BadPush("partition " + std::to_string(cut.partition) + " of " + std::to_string(start.size()));
  }
  if (request.run >= cut.runs()) {
    return BadPush("run " + std::to_string(request.run) + " of " + std::to_string(cut.runs()));
  }
  const uint64_t most = cut.EventsOf(request.run);
  const bool fits = request.disposition == Disposition::kEmpty ? request.events == 0
                    : request.disposition == Disposition::kGradient
                        ? request.events >= 1 && request.events <= most
                        : request.events <= most;
  if (!fits) return BadPush(std::to_string(request.events) + " events in a batch of " + std::to_string(most));
  if (!ValidRate(request.rate)) return BadPush("a learning rate times " + std::to_string(request.rate));
  return {};
}

bool Server::State::FitsStrategy(const StepLane& step_lane) const {
  const StrategyConfig& strategy = config.strategy;
  const auto& [step, lane, width, needed] = step_lane;
  // How many there are at present, only the coordinator knows.
  if (strategy.auto_lanes) return step_lane.valid() && width - needed <= strategy.backup;
  return width > 0 && width <= strategy.total_lanes() && needed == std::min(strategy.lanes, width);
}

Status Server::State::CheckStepLane(const PushRequest& request) const {
  const StrategyConfig& strategy = config.strategy;
  if (!strategy.stepped()) {
    if (request.step_lane || request.version_wanted > 0 || !request.counted.empty()) {
      return BadPush("a step lane, but the strategy has no steps");
    }
    return {};
  }
  if (!request.step_lane) {
    if (request.disposition != Disposition::kPull) return BadPush("a run without a step lane");
    return request.counted.empty() ? Status() : BadPush("counted lanes without a step lane");
  }
  const StepLane& step_lane = *request.step_lane;
  if (!FitsStrategy(step_lane)) {
    const std::string has = strategy.auto_lanes ? std::to_string(strategy.backup) + " more than count"
                                                : std::to_string(strategy.total_lanes()) + " and " +
                                                      std::to_string(strategy.lanes);
    return BadPush("a step of " + std::to_string(step_lane.width) + " lanes, of which " +
                   std::to_string(step_lane.needed) + " count; the job has " + has);
  }
  if (step_lane.lane >= step_lane.width) {
    return BadPush("lane " + std::to_string(step_lane.lane) + " of " + std::to_string(step_lane.width));
  }
  if (request.counted.empty()) return {};
  if (step_lane.needed == step_lane.width || request.counted.size() != (step_lane.width + 63) / 64) {
    return BadPush("counted lanes beyond the step's " + std::to_string(step_lane.width));
  }
  uint32_t chosen = 0;
  for (const uint64_t word : request.counted) chosen += static_cast<uint32_t>(std::popcount(word));
  const bool beyond = step_lane.width % 64 != 0 && request.counted.back() >> (step_lane.width % 64) != 0;
  if (beyond || chosen != step_lane.needed) {
    return BadPush(std::to_string(chosen) + " counted lanes of " + std::to_string(step_lane.width) + "; " +
                   std::to_string(step_lane.needed) + " are needed");
  }
  return {};
}

Status Server::Begin(const PushRequest& request, std::vector<uint64_t>* elements) {
  State& s = *state_;
  const bool gradient = request.disposition == Disposition::kGradient;
  if (elements) elements->clear();
  const SliceRef* before = nullptr;
  for (const SliceRef& ref : request.slices) {
    const SliceId id = ref.slice;
    if (id.value >= s.hosted_slices.size()) {
      return BadPush("slice " + ToString(id) + " of " + std::to_string(s.hosted_slices.size()));
    }
    if (before && id <= before->slice) return BadPush("slice " + ToString(id) + " is out of order");
    before = &ref;
    if (elements) elements->push_back(gradient ? s.config.table.slices[id.value].elements() : 0);
  }
  if (request.disposition > Disposition::kRejected) return BadPush("unknown disposition");
  LEAT_RETURN_IF_ERROR(s.CheckStepLane(request));
  if (request.disposition != Disposition::kPull) LEAT_RETURN_IF_ERROR(s.CheckRun(request));
  if (s.Refuses(request)) {
    ++s.progress.refused;
    return {};
  }
  if (!request.counted.empty()) LEAT_RETURN_IF_ERROR(s.TakeCounted(request));
  ++(request.disposition == Disposition::kPull ? s.progress.pulls : s.progress.pushes);
  return {};
}

SliceOutcome Server::State::Take(Slice* slice, const PushRequest& request, const SliceRef& ref,
                                 std::span<const float> gradient, const Step** agreed) {
  if (stepped()) return TakeLane(&*hosted_slices[ref.slice.value], request, ref, gradient, agreed);
  if (const auto known = OutcomeOf(ledgers.Record(ref.slice.value))) return *known;
  hot[ref.slice.value].ledger_outdated = true;
  if (request.disposition == Disposition::kGradient) {
    Update(slice, gradient, ref.version, request.rate);
    slice->events += request.events;
  }
  return SliceOutcome::kApplied;
}

void Server::State::Apply(const PushRequest& request, std::span<const SliceRef> slices,
                          std::span<const std::span<const float>> gradients, SliceReply* replies,
                          const Buffer& memory) {
  const bool here = !NotInView(request);
  const bool pull = request.disposition == Disposition::kPull;
  const bool gradient = request.disposition == Disposition::kGradient;
  const bool follows = Follows(request.worker);
  const Step* agreed = nullptr;
  ledgers.SelectRun(request.cut, request.run);
  taken_now.clear();
  for (size_t i = 0; i < slices.size(); ++i) {
    const SliceRef& ref = slices[i];
    SliceReply& reply = replies[i];
    reply = {ref.slice, SliceOutcome::kNotHere, false, ref.incarnation, 0};
    HotSlice& its = hot[ref.slice.value];
    Slice* const slice = its.alive;
    // A follower says what it has, whatever has become of it.
    const bool same = slice && (follows || guards::SameIncarnation(ref.incarnation, slice->incarnation));
    if (!same || !here) {
      if (!slice && here && !pull && Arriving({ref.slice, ref.incarnation}))
        reply.outcome = SliceOutcome::kMoving;
      continue;
    }
    const auto numbers = gradients.empty() ? std::span<const float>() : gradients[i];
    LEAT_CHECK(!gradient || config.modelled || numbers.size() == slice->elements);
    HostedSlice* const moving = its.moving ? &*hosted_slices[ref.slice.value] : nullptr;
    if (moving && moving->handed_over) continue;
    ++its.requests;
    if (gradient) its.bytes += slice->elements * sizeof(float);
    if (pull) {
      reply.outcome = SliceOutcome::kPulled;
    } else if (moving && HeldBack(moving, request)) {
      reply.outcome = OutcomeWhileMoving(*moving, request);
    } else {
      const uint64_t before = slice->version;
      reply.outcome = Take(slice, request, ref, numbers, &agreed);
      const bool taken = reply.outcome == SliceOutcome::kApplied || reply.outcome == SliceOutcome::kHeld;
      if (taken && its.replicated) taken_now.emplace_back(i, slice->version != before);
    }
    if (reply.outcome == SliceOutcome::kDuplicate) ++progress.duplicates;
    if (reply.outcome == SliceOutcome::kConflict) ++progress.conflicts;
    reply.version = slice->version;
    if (follows) reply.incarnation = slice->incarnation;
    reply.values = request.want_values && reply.outcome != SliceOutcome::kConflict &&
                   reply.outcome != SliceOutcome::kMoving;
    if (follows && ref.incarnation == slice->incarnation && ref.version == slice->version)
      reply.values = false;
  }
  if (!taken_now.empty()) ForwardTaken(request, slices, gradients, memory);
}

SliceReply Server::Apply(const PushRequest& request, size_t i, std::span<const float> gradient) {
  SliceReply reply;
  state_->Apply(request, std::span(request.slices).subspan(i, 1), std::span(&gradient, 1), &reply, {});
  return reply;
}

void Server::ApplyAll(const PushRequest& request, std::span<const std::span<const float>> gradients,
                      std::vector<SliceReply>* replies, const Buffer& memory) {
  State& s = *state_;
  LEAT_CHECK(gradients.size() == request.slices.size() || gradients.empty());
  replies->resize(request.slices.size());
  s.defer_updates = true;
  s.Apply(request, request.slices, gradients, replies->data(), memory);
  s.defer_updates = false;
  if (!s.updates.empty()) s.RunUpdates();
}

void Server::State::UpdateValues(Slice* slice, std::span<const float> gradient, uint64_t staleness,
                                 float rate) {
  if (std::exchange(hosted_slices[slice->id.value]->being_saved, false) &&
      (!config.saved || !config.saved(*slice))) {
    MoveToNewMemory(slice);
  }
  const Rule& rule = RuleOf(slice->id);
  std::array<std::span<float>, optim::kMaxSlots> slot_spans;
  LEAT_CHECK(rule.slots <= slot_spans.size());
  for (uint32_t i = 0; i < rule.slots; ++i) slot_spans[i] = slice->slot(i);
  const float scale =
      config.strategy.staleness_aware && staleness > 1 ? 1.0f / static_cast<float>(staleness) : 1.0f;
  rule.Apply(slice->values(), gradient, std::span(slot_spans).first(rule.slots), slice->version,
             scale * rule.RateOf(rate));
}

// ---- replies

// True if a slice that does not take the run still moves, if a replica is not known to have what would be
// said of it, or else if a version that it waits for is missing.
bool Server::State::Unready(const Parked& request) {
  const PushHeader& header = request.request;
  if (NotInView(header)) return false;
  bool held_back = false, moves = false, unconfirmed = false, conflict = false;
  for (const SliceReply& slice : request.slices) {
    unconfirmed = unconfirmed || Unconfirmed(slice, request.numbers);
    conflict = conflict || slice.outcome == SliceOutcome::kConflict;
    if (slice.outcome != SliceOutcome::kMoving) continue;
    held_back = true;
    moves = moves || StillMoving(slice);
  }
  if (unconfirmed) return true;
  if (conflict) return false;
  if (held_back) return moves;
  bool below = false;
  for (const SliceReply& slice : request.slices) {
    const Slice* alive = Alive(slice.slice);
    if (!alive || alive->incarnation != slice.incarnation) return false;
    if (hot[slice.slice.value].moving && hosted_slices[slice.slice.value]->handed_over) return false;
    below = below || alive->version < header.version_wanted;
  }
  return below;
}

bool Server::State::Waits(const Parked& request) {
  const auto& slices = request.slices;
  if (!links.empty() && std::ranges::any_of(slices, [&](const SliceReply& slice) {
        return Unconfirmed(slice, request.numbers);
      }))
    return true;
  if (AnyMoves()) {
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

PushReply Server::State::Answer(Parked waited) {
  const PushHeader& request = waited.request;
  PushReply reply{request.sequence, view->generation, NotInView(request), {}, std::move(waited.slices)};
  const bool by_steps = stepped();
  const bool follows = Follows(request.worker);
  if (by_steps) ledgers.SelectRun(request.cut, request.run);
  for (SliceReply& slice : reply.slices) {
    // The slice may have been ordered away since its Apply.
    const Slice* const alive = Alive(slice.slice);
    const bool here = alive && alive->incarnation == slice.incarnation;
    if (!here) slice.values = false;
    if (slice.outcome == SliceOutcome::kMoving) {
      const bool stays = here ? !hosted_slices[slice.slice.value]->handed_over : StillMoving(slice);
      if (!stays || reply.evicted) slice.outcome = SliceOutcome::kNotHere;
      continue;
    }
    // The wait has ended before its replica had it.
    if (!here && !waited.numbers.empty()) slice.outcome = SliceOutcome::kNotHere;
    if (here && Unconfirmed(slice, waited.numbers)) {
      slice.values = false;
      slice.version = 0;
      if (request.disposition != Disposition::kPull)
        slice.outcome = reply.evicted ? SliceOutcome::kNotHere : SliceOutcome::kMoving;
      continue;
    }
    // The follower has this version; another one may have replaced it meanwhile.
    if (here && !slice.values && slice.outcome == SliceOutcome::kPulled && follows) continue;
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
                          ledgers.Lookup(slice.slice.value) == Ledger::Entry::kDuplicate;
      slice.outcome = counts ? SliceOutcome::kApplied : SliceOutcome::kLate;
    }
    slice.version = alive->version;
    slice.values = slice.values && !waited.expired && alive->version >= request.version_wanted;
    if (slice.values && request.exact && alive->version == request.version_wanted + 1 &&
        hosted_slices[slice.slice.value]->has_previous) {
      slice.version = request.version_wanted;
    }
  }
  for (const SliceReply& slice : reply.slices) {
    if (slice.values) hot[slice.slice.value].bytes += Alive(slice.slice)->elements * sizeof(float);
  }
  if (request.step_lane && request.step_lane->needed < request.step_lane->width && Alive(SliceId(0)) &&
      !reply.evicted) {
    if (const Step* step = FindStep(request.step_lane->step)) reply.counted = step->counted;
  }
  return reply;
}

std::optional<PushReply> Server::Finish(uint64_t ticket, const PushRequest& request,
                                        std::vector<SliceReply> slices) {
  State& s = *state_;
  if (request.disposition == Disposition::kRejected || request.disposition == Disposition::kGradient) {
    const bool recorded = !s.stepped() && std::ranges::any_of(slices, [](const SliceReply& slice) {
      return slice.outcome == SliceOutcome::kApplied;
    });
    if (recorded && request.disposition == Disposition::kGradient) {
      s.consecutive_rejected = 0;
    } else if (recorded) {
      ++s.consecutive_rejected;
      ++s.progress.skipped;
      s.rejected = RejectedRun{request.worker, request.cut, request.run};
    }
  }
  if (request.step_lane && !s.Refuses(request)) s.Decide(request);
  std::vector<State::LinkNumber> numbers = s.NumbersOf(slices);
  State::Parked parked{ticket, false, request, std::move(slices), std::move(numbers)};
  if (!s.Waits(parked)) return s.Answer(std::move(parked));
  s.parked.push_back(std::move(parked));
  return std::nullopt;
}

std::vector<Server::Ready> Server::TakeReady() {
  State& s = *state_;
  std::vector<Ready> ready;
  if (!std::exchange(s.wake, false) || s.parked.empty()) return ready;
  size_t kept = 0;
  for (State::Parked& parked : s.parked) {
    if (!parked.expired && s.Unready(parked)) {
      if (&s.parked[kept] != &parked) s.parked[kept] = std::move(parked);
      ++kept;
    } else {
      const uint64_t ticket = parked.ticket;
      ready.push_back({ticket, s.Answer(std::move(parked))});
    }
  }
  s.parked.resize(kept);
  return ready;
}

void Server::Expire(uint64_t ticket) {
  for (State::Parked& parked : state_->parked) {
    if (parked.ticket == ticket) parked.expired = state_->wake = true;
  }
}

void Server::Forget(uint64_t ticket) {
  std::erase_if(state_->parked, [ticket](const State::Parked& parked) { return parked.ticket == ticket; });
}

Server::HeldValues Server::Values(SliceId slice, uint64_t version) const {
  const Slice* alive = state_->Alive(slice);
  LEAT_CHECK(alive != nullptr);
  const State::HostedSlice& hosted = *state_->hosted_slices[slice.value];
  if (hosted.has_previous && version + 1 == alive->version) {
    return {hosted.previous, {reinterpret_cast<const float*>(hosted.previous.data()), alive->elements}};
  }
  return {alive->memory, alive->values()};
}

}  // namespace leat::protocol
