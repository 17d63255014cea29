// A request to stop, for which a thread waits between its turns.
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/clock.h"

namespace leat {

// Thread-safe.
class StopEvent {
 public:
  void Set(bool stop = true) {
    {
      std::lock_guard lock(mutex_);
      stop_ = stop;
    }
    changed_.notify_all();
  }
  bool is_set() const {
    std::lock_guard lock(mutex_);
    return stop_;
  }
  // Waits for it, at most for this time. True: it is set.
  bool Await(Duration limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return stop_; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
};

}  // namespace leat
