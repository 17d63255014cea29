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
#include "compute/engine/run/progress.h"
#include "net/rpc/client.h"
#include "protocol/topology/topology_settings.h"

namespace leat::roles {

// A thread that sends protocol::KeepAlive whenever the coordinator has answered nothing for `silence`. Failed
// calls are repeated after `silence`. While heartbeats are answered it sends a few at the beginning, and then
// one every kMeasure, which also report the round trip to the coordinator.
class KeepAliveThread {
 public:
  struct Options {
    NodeId node;
    Duration silence;
    Duration call_deadline;
    std::shared_ptr<const engine::Progress> progress;
    topology::RoundTrips round_trips = {};  // round trips of the calls so far
  };
  static constexpr Duration kMeasure = std::chrono::seconds(10);

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
  topology::RoundTrips round_trips_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace leat::roles
