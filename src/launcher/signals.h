// Turns SIGINT (Ctrl-C) and SIGTERM into calls on an ordinary thread.
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

}  // namespace leat::launcher
