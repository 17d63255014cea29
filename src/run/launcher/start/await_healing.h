// Waits for brokers, buckets and hosts that are away when a job is resumed.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace leat::launcher {

struct HealingOptions {
  // Called with what `attempt` lacks whenever that changes, and with "" once it succeeds after all.
  std::function<void(const std::string& what)> on_wait;
  // Called at once when a signal comes, on another thread: an attempt that takes long may end the process.
  std::function<void()> on_signal;
  Duration first_pause = std::chrono::seconds(1);  // between attempts; doubles
  Duration longest_pause = std::chrono::seconds(10);
};

// Calls `attempt` until it returns ok, or an error whose exit status is not 75; StatusErrors that it throws
// count as returned, other exceptions pass. There is no deadline: on_wait gets the reason for the wait.
// kAborted: SIGINT or SIGTERM, which BlockSignals has blocked, came between two attempts or during one.
Status AwaitHealing(const HealingOptions& options, const std::function<Status()>& attempt);

}  // namespace leat::launcher
