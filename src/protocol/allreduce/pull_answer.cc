#include "protocol/allreduce/pull_answer.h"

#include "protocol/guards.h"

namespace leat::protocol {

Status CheckPull(const PushRequest& request, size_t slices) {
  const bool pull = request.disposition == Disposition::kPull && !request.step_lane &&
                    request.version_wanted == 0 && !request.exact && request.counted.empty();
  if (!pull) return {Code::kInvalidArgument, "a member answers pulls of values, and nothing else"};
  const SliceRef* before = nullptr;
  for (const SliceRef& ref : request.slices) {
    if (ref.slice.value >= slices || (before && ref.slice <= before->slice)) {
      return {Code::kInvalidArgument, "pull: slice " + ToString(ref.slice) + " of " + std::to_string(slices) +
                                          " is unknown or out of order"};
    }
    before = &ref;
  }
  return {};
}

PushReply AnswerPull(const PushRequest& request, const View& view,
                     const std::optional<MemberValues>& values) {
  PushReply reply{request.sequence, view.generation, false, {}, {}};
  const Member* const member = view.Find(request.worker);
  // A requester with a newer view has joined after ours was made.
  const bool follows = member ? member->role == Role::kServe : request.generation > view.generation;
  reply.evicted = !guards::IsMember(follows);
  reply.slices.reserve(request.slices.size());
  for (const SliceRef& ref : request.slices) {
    SliceReply& slice = reply.slices.emplace_back();
    slice = {ref.slice, SliceOutcome::kNotHere, false, ref.incarnation, 0};
    if (!values || reply.evicted) continue;
    slice.outcome = SliceOutcome::kPulled;
    slice.incarnation = values->incarnation;
    slice.version = values->step;
    slice.values =
        request.want_values && (ref.incarnation != values->incarnation || ref.version != values->step);
  }
  return reply;
}

}  // namespace leat::protocol
