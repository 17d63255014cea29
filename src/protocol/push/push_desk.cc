#include "protocol/push/push_desk.h"

#include <array>
#include <utility>

#include "base/check.h"
#include "protocol/guards.h"

namespace leat::protocol {

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

void PushDesk::Apply(const PushRequest& request, std::span<const SliceRef> slices,
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
  Apply(request, request.slices, gradients, replies->data(), memory);
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

void PushDesk::Finish(const PushRequest& request, const std::vector<SliceReply>& slices) {
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
}

// ---- forwards

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

}  // namespace leat::protocol
