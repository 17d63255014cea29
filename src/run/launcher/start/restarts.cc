#include "run/launcher/start/restarts.h"

#include <algorithm>
#include <chrono>

#include "base/exit_status.h"

namespace leat::launcher {
namespace {

// Consecutive failures of one role, without progress of the job, before the job is given up.
constexpr int kMaxFailedStarts = 5;
// Before a role is started again whose end may heal; doubles.
constexpr Duration kFirstPause = std::chrono::milliseconds(500);
constexpr Duration kMostPause = std::chrono::seconds(10);

}  // namespace

bool Restarts::MayRestart(const ProcessEnd& end, bool coordinator) {
  switch (AfterExitOf(end.exit_code, coordinator)) {
    case AfterExit::kRestartForEver:
      return true;
    case AfterExit::kRestart:
      return ++failed_starts_[end.name] <= kMaxFailedStarts;
    case AfterExit::kDone:
    case AfterExit::kGiveUp:
      break;
  }
  return false;
}

Duration Restarts::PauseBefore(const std::string& name, bool crashed) {
  if (crashed) return Duration::zero();
  return std::min<Duration>(kFirstPause * (1 << std::min(retries_[name]++, 10)), kMostPause);
}

void Restarts::OnProgress(const std::function<bool(const std::string& name)>& waits) {
  failed_starts_.clear();
  // The progress is not that of a process which still could not be started.
  std::erase_if(retries_, [&](const auto& retry) { return !waits(retry.first); });
}

int ExitStatusAfter(int exit_code) {
  const bool known = exit_code == ExitStatus::kBadInput || exit_code == ExitStatus::kMayHeal ||
                     exit_code == ExitStatus::kInterrupted;
  return known ? exit_code : ExitStatus::kFailed;
}

std::string HowEnded(const ProcessEnd& end) {
  const bool crashed = end.exit_code > ExitStatus::kSignal;
  return "ended (" +
         (crashed ? "signal " + std::to_string(end.exit_code - ExitStatus::kSignal)
                  : "status " + std::to_string(end.exit_code)) +
         (end.last_error.empty() || crashed ? ")" : ": " + end.last_error + ")");
}

}  // namespace leat::launcher
