#include "show/report/admin_wait.h"

#include <algorithm>
#include <utility>

namespace leat::report {
namespace {

constexpr uint64_t kMebi = 1 << 20;
constexpr double kLongestLimit_s = 1e6;

}  // namespace

std::optional<std::string> AdminWait::OnStatus(Time now, const JobStatus& status) {
  heard_ = now;
  std::optional<uint64_t> checkpoint;
  uint64_t bytes = 0;
  std::string waiting_for = status.waiting_for;
  if (const auto& saving = status.saving) {
    checkpoint = saving->checkpoint;
    bytes = saving->bytes;
    limit_ = FromSeconds(std::clamp(saving->limit_s, 0.0, kLongestLimit_s));
    if (waiting_for.empty()) waiting_for = saving->waiting_for;
  }
  const bool news = checkpoint != checkpoint_ || waiting_for != waiting_for_;
  if (news || bytes != bytes_) moved_ = now;
  checkpoint_ = checkpoint;
  bytes_ = bytes;
  waiting_for_ = std::move(waiting_for);
  if (!checkpoint_) return std::nullopt;
  std::string line = "checkpoint " + std::to_string(*checkpoint_) + ": " + std::to_string(bytes_ / kMebi) +
                     " MiB saved, waiting for " + waiting_for_;
  if (line == shown_) return std::nullopt;
  shown_ = line;
  return line;
}

Status AdminWait::Check(Time now) const {
  const std::string what = checkpoint_ ? "checkpoint " + std::to_string(*checkpoint_) + " (" +
                                             std::to_string(bytes_ / kMebi) + " MiB saved)"
                                       : "the job";
  if (now - heard_ >= longest_) {
    if (!checkpoint_) {
      return silence_.ok() ? Status(Code::kDeadlineExceeded, "the coordinator does not answer") : silence_;
    }
    return {Code::kUnavailable,
            "the coordinator does not answer any more; " + what + " was waiting for " + waiting_for_};
  }
  if (const Duration still = now - moved_; still >= limit_ + kPatience) {
    return {Code::kDeadlineExceeded, what + " has made no progress for " +
                                         std::to_string(static_cast<int64_t>(Seconds(still))) +
                                         " s and goes on without this command" +
                                         (waiting_for_.empty() ? "" : ", waiting for " + waiting_for_)};
  }
  return {};
}

}  // namespace leat::report
