// Whether a role's process is alive or hangs, for the probes of Kubernetes and containers.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

#include "base/clock.h"

namespace leat::observe {

// A role is taken for hanging when its loop has not turned and no kernel has finished for kStalled. Before
// Watch and after Unwatch it is alive: it starts, reads files, initializes parameters, or ends. Time is an
// argument. Thread-safe.
class Liveness {
 public:
  static constexpr Duration kStalled = std::chrono::minutes(1);
  // How often a loop should call Turned.
  static constexpr Duration kInterval = std::chrono::seconds(1);

  // `kernels`: the number of kernels that have finished; thread-safe.
  void Watch(Time now, std::function<uint64_t()> kernels);
  void Unwatch();
  // By the role's loop.
  void Turned(Time now);
  bool Alive(Time now);

 private:
  std::mutex mutex_;
  std::function<uint64_t()> kernels_;  // null: nothing is watched
  Time last_{0};                       // the last sign of life that is known
  uint64_t finished_ = 0;              // kernels, as of then
};

// Watches a loop without kernels for as long as it exists. `liveness` may be null, and outlives it. The
// loop's thread only.
class WatchedLoop {
 public:
  explicit WatchedLoop(Liveness* liveness) : liveness_(liveness) {
    if (liveness_ != nullptr) liveness_->Watch(clock_.Now(), [] { return uint64_t{0}; });
  }
  ~WatchedLoop() {
    if (liveness_ != nullptr) liveness_->Unwatch();
  }
  WatchedLoop(const WatchedLoop&) = delete;
  WatchedLoop& operator=(const WatchedLoop&) = delete;
  void Turned() {
    if (liveness_ != nullptr) liveness_->Turned(clock_.Now());
  }

 private:
  Liveness* const liveness_;
  const MonotonicClock clock_;
};

}  // namespace leat::observe
