#include "run/roles/input/input_errors.h"

#include <memory>
#include <utility>

#include "base/exit_status.h"
#include "base/log.h"

namespace leat::roles {
namespace {

// How long a worker retries, in read timeouts. Brokers and feeds that are started again may take minutes.
int Patience(Code code) {
  if (ExitStatusOf(code) == ExitStatus::kMayHeal) return 60;
  return code == Code::kNotFound || code == Code::kDataLoss ? 1 : 6;
}

}  // namespace

InputErrors::InputErrors(const job::Job& job, Duration read_timeout, protocol::WorkerProgress* progress)
    : directory_(job.directory.empty() ? "" : job.directory + "/dead_letters"),
      read_timeout_(read_timeout),
      progress_(progress),
      hint_(job.schema.format == stream::Schema::Format::kCsv),
      rate_(job.dead_letter_rate) {}

void InputErrors::OpenDeadLetters(NodeId node) {
  if (directory_.empty()) return;
  file_ = std::make_unique<stream::DeadLetterFile>(directory_, "worker-" + std::to_string(node.value));
}

Status InputErrors::OnSplit(const PreparedSplit& split) {
  unreadable_since_.reset();
  const auto& cut = split.lease.cut;
  for (const auto& dead : split.rows.dead) {
    ++progress_->dead_letters;
    progress_->last_dead_letter = "partition " + std::to_string(cut.partition) + " offset " +
                                  std::to_string(dead.offset) + ": " + dead.reason;
    hint_.See(dead);
    if (file_ == nullptr) continue;
    if (auto kept = file_->Append(cut.partition, dead.offset, dead.reason, dead.record); !kept.ok()) {
      spdlog::warn("dead letters are counted but not kept: {}", kept.ToString());
    }
  }
  hint_.SeeFitting(split.rows.rows);
  rate_.Count(cut.events(), split.rows.dead.size());
  if (!rate_.exceeded()) return {};
  return Status(Code::kFailedPrecondition, "too many dead letters: " + rate_.Describe() + ", the last: " +
                                               progress_->last_dead_letter + hint_.Describe());
}

Status InputErrors::OnUnreadable(Time now, uint64_t lease, const Status& why) {
  if (!unreadable_since_) unreadable_since_ = now;
  spdlog::error("split {}: {}", lease, why.ToString());
  progress_->last_dead_letter = why.ToString();
  if (now - *unreadable_since_ > Patience(why.code()) * read_timeout_)
    return why.With("the stream cannot be read");
  return {};
}

}  // namespace leat::roles
