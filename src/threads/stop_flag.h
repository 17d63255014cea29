// A flag for threads that sleep until it is set.
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/clock.h"

namespace leat {

// Thread-safe.
class StopFlag {
 public:
  void Set(bool set = true) {
    std::lock_guard lock(mutex_);
    set_ = set;
    wake_.notify_all();
  }
  bool is_set() const {
    std::lock_guard lock(mutex_);
    return set_;
  }
  // Blocks until it is set, for `time` at most. Returns whether it is.
  bool WaitFor(Duration time) const {
    std::unique_lock lock(mutex_);
    return wake_.wait_for(lock, time, [this] { return set_; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable wake_;
  bool set_ = false;
};

}  // namespace leat
