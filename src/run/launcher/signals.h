// Turns SIGINT (Ctrl-C), SIGTERM, and the end of the process that has started this one into calls on an
// ordinary thread; and a wait that they end.
#pragma once

#include <signal.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/status.h"

namespace leat::launcher {

// SIGINT and SIGTERM.
sigset_t EndSignals();

// Blocks SIGINT, SIGTERM and SIGPIPE in the calling thread and all threads that it starts later. Call this
// before any thread is started.
void BlockSignals();

// Calls `on_signal` on its own thread for each SIGINT or SIGTERM, until destroyed.
class SignalWatch {
 public:
  explicit SignalWatch(std::function<void(int signal)> on_signal);
  ~SignalWatch();

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Notices the end of another process by a pipe: its other end closes when that process ends, however it ends.
class LifeWatch {
 public:
  // Takes ownership of `fd`, the reading end of a pipe; -1: there is nobody to watch. Calls `on_end` once, on
  // a thread of its own, when the other end is closed. Throws std::invalid_argument if `fd` is no such
  // descriptor.
  LifeWatch(int fd, std::function<void()> on_end);
  // Waits for a call that runs.
  ~LifeWatch();

 private:
  const int fd_;
  const int stop_;  // an eventfd
  std::thread thread_;
};

// ---- the wait for brokers, buckets and hosts that are away when a job is resumed

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
