#include "run/launcher/start/await_healing.h"

#include <algorithm>
#include <optional>

#include "base/exit_status.h"
#include "base/threads/thread.h"
#include "run/launcher/signals.h"

namespace leat::launcher {
namespace {

Status Attempt(const std::function<Status()>& attempt) {
  try {
    return attempt();
  } catch (const StatusError& error) {
    return error.status();
  }
}

}  // namespace

Status AwaitHealing(const HealingOptions& options, const std::function<Status()>& attempt) {
  StopEvent stopped;
  std::string said;
  std::optional<SignalWatch> signals;
  signals.emplace([&](int) {
    if (options.on_signal) options.on_signal();
    stopped.Set();
  });
  for (Duration pause = options.first_pause;; pause = std::min(2 * pause, options.longest_pause)) {
    const Status status = Attempt(attempt);
    if (ExitStatusOf(status.code()) != ExitStatus::kMayHeal) {
      if (!said.empty() && options.on_wait) options.on_wait("");
      signals.reset();
      return status.ok() && stopped.is_set() ? Status(Code::kAborted, "interrupted") : status;
    }
    if (status.message() != said) {
      said = status.message();
      if (options.on_wait) options.on_wait(said);
    }
    if (stopped.Await(pause)) return {Code::kAborted, "interrupted while it waited for " + said};
  }
}

}  // namespace leat::launcher
