#include "run/roles/training/training_role.h"

#include "base/log.h"
#include "job/model.h"
#include "net/same_host/shared_memory.h"

namespace leat::roles {

TrainingRole::TrainingRole(net::Loop& loop, Membership& membership, job::Job job, OpenedStream stream,
                           const RoleOptions& options)
    : loop_(loop),
      membership_(membership),
      job_(std::move(job)),
      stream_(std::move(stream)),
      table_(job_.Slices()),
      parameters_(table_, net::MakeSharedBuffer),
      trainer_(*job_.model, parameters_, MakePlanOptions(job_, options, membership), job_.optimizer.clipping),
      share_(job::ShareLayoutOf(job_.schema, *job_.model)),
      loader_(
          loop,
          SplitReader(std::move(stream_.source), job_.schema, stream_.dead_letters,
                      job_.predictions.enabled()),
          [this](uint64_t lease, Result<std::unique_ptr<PreparedSplit>> split) {
            OnSplit(lease, std::move(split));
          },
          membership.recorder().MakeTrack("input")),
      input_errors_(job_, options.read_timeout, &progress_) {
  trainer_.RecordTo(compute_track_);
  if (job_.reports_batches()) trainer_.ScoreByInference();
  if (!job_.predictions.enabled()) return;
  predictions_ = std::make_unique<WorkerPredictions>(loop, membership, job_, trainer_, loader_, options,
                                                     [this] { return MayScore(); });
}

Status TrainingRole::RunMember(Membership::Callbacks callbacks) {
  // Before the first heartbeat: then this worker has a share of the work, and others wait for it.
  trainer_.Prepare(job_.batch_size);
  LogNewPlans();
  if (stream_.dead_letters == nullptr) input_errors_.OpenDeadLetters(membership_.node());
  callbacks.make_heartbeat = [this] { return MakeHeartbeat(); };
  callbacks.on_reply = [this](const protocol::ControlReply& reply) { OnControlReply(reply); };
  Status outcome = membership_.Run(std::move(callbacks));
  // The scores of runs that this worker has pushed.
  if (predictions_ != nullptr && !membership_.evicted()) predictions_->Flush();
  return outcome;
}

void TrainingRole::Report(protocol::WorkerHeartbeat* heartbeat, bool scores) {
  protocol::WorkerProgress& progress = heartbeat->progress = progress_;
  input_flow_.AddRunningWait(loop_.Now(), &progress);
  progress.cpu_seconds = OwnCpuSeconds();
  batches_.Report(&progress);
  share_.Report(&progress);
  stream_.Count(&progress);
  gradients_.Fill(heartbeat);
  if (scores) ReportScores(&progress);
  if (predictions_ != nullptr) predictions_->Fill(heartbeat);
}

void TrainingRole::ReportScores(protocol::WorkerProgress* progress) const {
  if (job_.model->task() == nn::Task::kBinary) progress->scores = trainer_.scores_seen().Encode();
  if (job_.schema.has_truth()) progress->true_scores = trainer_.truths_seen().Encode();
}

void TrainingRole::OnControlReply(const protocol::ControlReply& reply) {
  batches_.OnAnswered();
  const auto* heartbeat = std::get_if<protocol::WorkerHeartbeatReply>(&reply);
  if (heartbeat == nullptr) return;
  gradients_.OnReply(*heartbeat);
  if (heartbeat->drain && !std::exchange(leaving_, true)) spdlog::info("told to leave");
  OnHeartbeatReply(*heartbeat);
}

void TrainingRole::Predict(const protocol::WorkerHeartbeatReply& reply, uint64_t term,
                           const protocol::View& view) {
  if (reply.term == term && predictions_ != nullptr && !membership_.over())
    predictions_->OnHeartbeatReply(reply, view);
}

void TrainingRole::OnSplit(uint64_t lease, Result<std::unique_ptr<PreparedSplit>> split) {
  const bool again = predictions_ != nullptr && predictions_->Owns(lease);
  if (membership_.over() || !(again || wanted_.contains(lease))) {
    if (split.ok()) loader_.Recycle(std::move(*split));
    return;
  }
  if (!split.ok()) return OnUnreadable(lease, split.status());
  if (again) return predictions_->OnSplit(std::move(*split));
  if (auto status = input_errors_.OnSplit(**split); !status.ok()) return membership_.Fail(std::move(status));
  input_flow_.OnSplit(**split);
  splits_[lease] = std::move(*split);
  OnSplitReady(lease);
}

// After a while the lease is given back; a member of a group, whose lane nobody else has, asks for it again.
void TrainingRole::OnUnreadable(uint64_t lease, const Status& why) {
  if (auto status = input_errors_.OnUnreadable(loop_.Now(), lease, why); !status.ok())
    return membership_.Fail(std::move(status));
  loop_.After(input_errors_.retry_interval(), [this, lease, here = here_] {
    if (!*here) return;
    if (predictions_ != nullptr) predictions_->OnUnreadable(lease);
    if (!membership_.over()) OnSplitFailed(lease);
  });
}

void TrainingRole::Execute(const protocol::PrepareSplit& action) {
  wanted_.insert(action.lease.id);
  loader_.Prepare(action.lease);
}

void TrainingRole::Execute(const protocol::DropSplit& action) {
  wanted_.erase(action.lease);
  if (auto node = splits_.extract(action.lease)) loader_.Recycle(std::move(node.mapped()));
}

void TrainingRole::Post(std::function<void()> work) {
  loop_.Post([this, here = here_, work = std::move(work)] {
    if (*here && !membership_.over()) work();
  });
}

protocol::BatchOutcome TrainingRole::Count(const step::StepOutcome& step, const protocol::Cut& cut,
                                           uint32_t batch, const char* lost) {
  LogNewPlans();
  progress_.loss_sum += step.loss_sum;
  progress_.correct += step.correct;
  progress_.absolute_error += step.absolute_error;
  ++progress_.steps;
  longest_step_.OnBatch(loop_.Now());
  progress_.longest_step_seconds = Seconds(longest_step_.longest());
  share_.Update(loop_.Now());
  if (step.finite) {
    progress_.events += step.events;
    if (job_.reports_batches()) batches_.Add(step);
    return {step.events > 0 ? protocol::Disposition::kGradient : protocol::Disposition::kEmpty, step.events};
  }
  ++progress_.rejected_batches;
  spdlog::warn(
      "partition {} offsets {} to {}, batch {}: the gradient is not finite; nothing of {} is applied",
      cut.partition, cut.begin.offset, cut.end, batch, lost);
  return {protocol::Disposition::kRejected, step.events};
}

// There is one graph for each size of batches; it is kept while others come and go.
void TrainingRole::LogNewPlans() {
  if (plans_ != trainer_.plans()) spdlog::info("graphs compiled: {}", plans_ = trainer_.plans());
}

}  // namespace leat::roles
