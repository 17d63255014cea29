// Turns SIGINT (Ctrl-C), SIGTERM, and the end of the process that has started this one into calls on an
// ordinary thread.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace leat::launcher {

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
  LifeWatch(const LifeWatch&) = delete;
  LifeWatch& operator=(const LifeWatch&) = delete;

 private:
  const int fd_;
  const int stop_;  // an eventfd
  std::thread thread_;
};

}  // namespace leat::launcher
