// Tells the coordinator that this process is alive while its loop cannot: during a long batch, while files
// are opened, while parameters are initialized.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "control/client.h"
#include "engine/run/progress.h"

namespace leat::roles {

// A thread that sends protocol::KeepAlive whenever the coordinator has answered nothing for `silence`. While
// heartbeats are answered it only wakes up once in that time. Failed calls are repeated after `silence`.
class KeepAliveThread {
 public:
  struct Options {
    NodeId node;
    Duration silence;
    Duration call_deadline;
    std::shared_ptr<const engine::Progress> progress;
  };

  KeepAliveThread(std::shared_ptr<control::ControlClient> client, Options options);
  // Waits for a call that is under way: Abort() on the client ends it.
  ~KeepAliveThread();

  // The coordinator has answered a heartbeat. Thread-safe.
  void OnAnswer();

 private:
  void Run();

  const std::shared_ptr<control::ControlClient> client_;
  const Options options_;
  const MonotonicClock clock_;
  std::atomic<Time> last_answer_;  // to a heartbeat or a keep-alive
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace leat::roles
