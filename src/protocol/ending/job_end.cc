#include "protocol/ending/job_end.h"

#include <algorithm>
#include <utility>

namespace leat::protocol {

namespace {

// How long the end of the job waits for workers to end their leases, and for members to hear of it.
constexpr Duration kEndingWait = std::chrono::seconds(5);

}  // namespace

Duration JobEnd::MemberWait() const {
  return std::max(to_.roster.settings().heartbeat_timeout, kEndingWait);
}

// ---- how far it is

bool JobEnd::Finished() const {
  return slices_.ready() && to_.leases.cursors().EndsAt(slices_.Watermarks()) &&
         to_.predictions.Done(to_.leases.cursors().Positions());
}

bool JobEnd::IsSaved() const {
  const std::optional<Manifest>& newest = to_.checkpoints.newest();
  return newest && newest->watermark == to_.leases.cursors().Positions();
}

bool JobEnd::FinalCheckpointDone() const {
  return stop_requested_ ? to_.checkpoints.final_done() || !slices_.placed() : IsSaved();
}

Status JobEnd::CheckNotBegun() const {
  if (!begun()) return {};
  return {Code::kFailedPrecondition, "the job is ending"};
}

LeasesAllowed JobEnd::Allowed() const {
  return {.ending = stage_ == Stage::kDraining || stage_ == Stage::kFinalCheckpoint,
          // Nothing is leased any more but what only some of the slices have trained.
          .repairs = stop_requested_ && stage_ == Stage::kFinalCheckpoint &&
                     (to_.leases.stepped() || !to_.checkpoints.pending()),
          .paused = to_.scale.paused(),
          .may_take_back = !begun() && !to_.checkpoints.pending()};
}

std::string JobEnd::WaitingFor() const {
  if (stage_ != Stage::kFinalCheckpoint || to_.checkpoints.failure().ok()) return "";
  return "the final checkpoint, which failed: " + to_.checkpoints.failure().message();
}

// No worker holds a lease. In stepped strategies the slices have also reported since the last one ended.
bool JobEnd::Drained() {
  if (to_.leases.queue().leased() > 0) return false;
  if (!to_.leases.stepped()) return true;
  if (!drained_) drained_ = to_.roster.heartbeats();
  return AllReportedSince(*drained_, to_.roster.heartbeats());
}

// All slices have trained the same. In a job that is stopped without a worker that sees to that, they stay as
// they are: the job trains what they lack when it is resumed.
bool JobEnd::SlicesAgree(Time now) {
  if (!slices_.ready()) {
    repairs_.reset();
    return false;
  }
  if (to_.leases.stepped()) return slices_.Version() == slices_.HighestVersion();
  const uint64_t runs = stop_requested_ ? to_.leases.splits().RunsSomeSlicesLack(slices_) : 0;
  if (runs == 0) return true;
  const Time idle_deadline = now + MemberWait();
  if (!repairs_ || runs < repairs_->runs) repairs_ = {runs, now + CheckpointWait(), idle_deadline};
  if (to_.leases.queue().leased() > 0) repairs_->idle_deadline = idle_deadline;
  return now >= std::min(repairs_->deadline, repairs_->idle_deadline);
}

// ---- events

void JobEnd::OnStop(Time now, uint64_t call) {
  calls_.push_back(call);
  if (stage_ == Stage::kStoppingMembers) return StopMembers(now, outcome_);
  if (std::exchange(stop_requested_, true)) return;
  to_.leases.AbandonLaneChange(now);
  to_.scale.Continue(now);  // a job that is resumed trains
  stage_ = Stage::kDraining;
  deadline_ = now + MemberWait();
  // Its step may never come. The final checkpoint replaces it, and answers its callers.
  if (to_.leases.stepped()) to_.checkpoints.AbandonUncommitted(now);
  to_.checkpoints.RetryAt(now);
}

void JobEnd::OnDiscard(Time now, uint64_t call) {
  calls_.push_back(call);
  to_.scale.Continue(now);
  StopMembers(now, stage_ == Stage::kStoppingMembers ? outcome_ : Status());
}

void JobEnd::StopMembers(Time now, Status outcome) {
  // Nobody would finish it. A checkpoint whose manifest is being written is complete.
  to_.checkpoints.AbandonUncommitted(now);
  stage_ = Stage::kStoppingMembers;
  deadline_ = now + MemberWait();
  outcome_ = std::move(outcome);
  for (const uint64_t call : calls_) to_.outbox.Answer(call, AdminReply{outcome_});
  calls_.clear();
}

void JobEnd::OnReplaced(const Status& why) {
  stage_ = Stage::kEnded;
  to_.outbox.Discard();
  to_.outbox.Request(JobEnded{why, false, {}});
}

void JobEnd::Advance(Time now) {
  if (stage_ == Stage::kNone && Finished()) {
    stage_ = Stage::kFinalCheckpoint;
    deadline_ = now + CheckpointWait();
  } else if (stage_ == Stage::kFinalCheckpoint && !stop_requested_ && !Finished() && !FinalCheckpointDone()) {
    // A server was lost, or the stream has grown: there is more to train.
    stage_ = Stage::kNone;
  }
  if (stage_ == Stage::kDraining && (Drained() || now >= deadline_)) {
    EndLeases(now);
    stage_ = Stage::kFinalCheckpoint;
    deadline_ = now + CheckpointWait();
  }
  if (stage_ == Stage::kFinalCheckpoint) AdvanceFinalCheckpoint(now);
  if (stage_ == Stage::kStoppingMembers && (to_.roster.AllToldToStop() || now >= deadline_)) End(outcome_);
}

// A worker that has not been heard of in time may still hold some.
void JobEnd::EndLeases(Time now) {
  if (to_.leases.stepped()) return;
  for (const auto& [node, member] : to_.roster.members()) {
    if (member.Is(Role::kWorker)) to_.leases.splits().Reclaim(now, node);
  }
}

void JobEnd::AdvanceFinalCheckpoint(Time now) {
  // A job stopped in the middle of a step: all slices must complete the step that some have completed.
  if (to_.leases.stepped() && !to_.roster.settings().all_reduce() && stop_requested_ && slices_.ready())
    to_.leases.rounds().StopAt(now, slices_.HighestVersion());
  const bool agree = SlicesAgree(now);
  if (slices_.ready() && (agree || !to_.leases.stepped())) deadline_ = now + CheckpointWait();
  if (FinalCheckpointDone()) {
    StopMembers(now, Status());
  } else if (now >= deadline_) {
    // A job that was to end does not go on by itself.
    const std::optional<Manifest>& newest = to_.checkpoints.newest();
    StopMembers(now, Status(stop_requested_ ? Code::kFailedPrecondition : Code::kDeadlineExceeded,
                            "the final checkpoint could not be made; the newest one is " +
                                (newest ? newest->directory : std::string("none"))));
  } else if (agree && to_.checkpoints.MayStart(now)) {
    to_.checkpoints.Start(now, true);
  }
}

void JobEnd::End(Status status) {
  stage_ = Stage::kEnded;
  MembersLeft left;
  for (const auto& [node, member] : to_.roster.members()) left.nodes.push_back(node);
  to_.checkpoints.AnswerCalls(Status(Code::kAborted, "the job has ended"));
  to_.outbox.Request(JobEnded{std::move(status), Finished() && IsSaved(), std::move(left)});
}

}  // namespace leat::protocol
