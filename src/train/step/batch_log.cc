#include "train/step/batch_log.h"

namespace leat::step {

void BatchLog::Add(const StepOutcome& batch) {
  if (batch.events == 0) return;
  // An entry that was reported must not change: the coordinator may have it.
  if (entries_.size() < kMaxEntries || entries_.size() == reported_) entries_.emplace_back();
  auto& last = entries_.back();
  last.events += batch.events;
  last.loss_sum += batch.loss_sum;
  last.correct += batch.correct;
  last.absolute_error += batch.absolute_error;
}

void BatchLog::Report(protocol::WorkerProgress* progress) {
  progress->first_batch = first_;
  progress->batches = entries_;
  reported_ = entries_.size();
}

void BatchLog::OnAnswered() {
  first_ += reported_;
  entries_.erase(entries_.begin(), entries_.begin() + static_cast<ptrdiff_t>(reported_));
  reported_ = 0;
}

}  // namespace leat::step
