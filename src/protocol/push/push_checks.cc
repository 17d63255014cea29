#include "protocol/push/push_checks.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "protocol/slices/server/slice_rules.h"

namespace leat::protocol {

namespace {

Status BadPush(std::string what) {
  return Status(Code::kInvalidArgument, "push: " + std::move(what));
}

Status BadForward(std::string what) {
  return Status(Code::kInvalidArgument, "forward: " + std::move(what));
}

Status CheckRun(const JobSlices& job, const PushRequest& request) {
  const Cut& cut = request.cut;
  const auto& start = job.start();
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

Status CheckStepLane(const StrategyConfig& strategy, const PushRequest& request) {
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
  if (!FitsStrategy(step_lane, strategy)) {
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

}  // namespace

Status CheckPush(const JobSlices& job, const PushRequest& request, std::vector<uint64_t>* elements) {
  const bool gradient = request.disposition == Disposition::kGradient;
  if (elements) elements->clear();
  const SliceRef* before = nullptr;
  for (const SliceRef& ref : request.slices) {
    const SliceId id = ref.slice;
    if (id.value >= job.size()) {
      return BadPush("slice " + ToString(id) + " of " + std::to_string(job.size()));
    }
    if (before && id <= before->slice) return BadPush("slice " + ToString(id) + " is out of order");
    before = &ref;
    if (elements) elements->push_back(gradient ? job.ElementsOf(id) : 0);
  }
  if (request.disposition > Disposition::kRejected) return BadPush("unknown disposition");
  LEAT_RETURN_IF_ERROR(CheckStepLane(job.config().strategy, request));
  return request.disposition == Disposition::kPull ? Status() : CheckRun(job, request);
}

Status CheckForward(const JobSlices& job, const ForwardRequest& request, std::vector<uint64_t>* elements) {
  const PushRequest& push = request.push;
  const bool gradient = push.disposition == Disposition::kGradient;
  if (elements) elements->clear();
  if (request.epochs.size() != push.slices.size() || request.versions.size() != push.slices.size())
    return BadForward("its slices do not fit");
  const SliceRef* before = nullptr;
  for (const SliceRef& ref : push.slices) {
    if (ref.slice.value >= job.size() || (before && ref.slice <= before->slice))
      return BadForward("slice " + ToString(ref.slice) + " is unknown or out of order");
    before = &ref;
    if (elements) elements->push_back(gradient ? job.ElementsOf(ref.slice) : 0);
  }
  if (push.disposition > Disposition::kRejected || !push.counted.empty())
    return BadForward("no forwarded push");
  LEAT_RETURN_IF_ERROR(CheckStepLane(job.config().strategy, push));
  if (push.disposition != Disposition::kPull) LEAT_RETURN_IF_ERROR(CheckRun(job, push));
  for (const DecidedStep& decided : request.decided) {
    if (!job.stepped() || !FitsStrategy(decided, job.config().strategy))
      return BadForward("wrong lanes of step " + std::to_string(decided.step));
  }
  return {};
}

}  // namespace leat::protocol
