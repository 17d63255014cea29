// Ctrl-C and SIGTERM as calls on an ordinary thread.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace leat::train {

// Blocks SIGINT, SIGTERM and SIGPIPE in the calling thread and all it starts later: call it first in main.
void BlockSignals();

// Calls `on_signal` on a thread of its own for each SIGINT or SIGTERM while it lives.
class SignalWatch {
 public:
  explicit SignalWatch(std::function<void(int signal)> on_signal);
  ~SignalWatch();

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace leat::train
