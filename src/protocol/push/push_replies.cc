#include "protocol/push/push_replies.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace leat::protocol {

// True if a slice that does not take the run still moves, if a replica is not known to have what would be
// said of it, or else if a version that it waits for is missing.
bool PushReplies::Unready(const Parked& request) {
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

bool PushReplies::Waits(const Parked& request) {
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

PushReply PushReplies::Answer(Parked waited) {
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

std::optional<PushReply> PushReplies::Reply(uint64_t ticket, const PushRequest& request,
                                            std::vector<SliceReply> slices) {
  std::vector<LinkNumber> numbers = forwards_.NumbersOf(slices);
  Parked parked{ticket, false, request, std::move(slices), std::move(numbers)};
  if (!Waits(parked)) return Answer(std::move(parked));
  parked_.push_back(std::move(parked));
  return std::nullopt;
}

std::vector<PushReplies::Ready> PushReplies::TakeReady() {
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

void PushReplies::Expire(uint64_t ticket) {
  for (Parked& parked : parked_) {
    if (parked.ticket == ticket) parked.expired = slices_.signals().wake_parked = true;
  }
}

void PushReplies::Forget(uint64_t ticket) {
  std::erase_if(parked_, [ticket](const Parked& parked) { return parked.ticket == ticket; });
}

PushReplies::HeldValues PushReplies::Values(SliceId slice, uint64_t version) const {
  const Slice* alive = slices_.Alive(slice);
  LEAT_CHECK(alive != nullptr);
  const Buffer* const previous = steps_.Previous(slice);
  if (previous && version + 1 == alive->version) {
    return {*previous, {reinterpret_cast<const float*>(previous->data()), alive->elements}};
  }
  return {alive->memory, alive->values()};
}

}  // namespace leat::protocol
