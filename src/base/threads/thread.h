// Threads whose exceptions end the process as those of main do.
#pragma once

#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/status.h"

namespace leat {

// Ends the process at once, with one line on stderr and the error's exit status (docs/exit-statuses.md).
// Thread-safe.
[[noreturn]] void EndProcess(const std::exception& error);

// Starts a thread. An exception that leaves `body` ends the process: others may wait for the thread's work,
// and std::terminate would count as a crash. Throws std::system_error if the host has no more threads.
template <class Body>
std::thread StartThread(Body body) {
  try {
    return std::thread([body = std::move(body)]() mutable {
      try {
        body();
      } catch (const std::exception& error) {
        EndProcess(error);
      }
    });
  } catch (const std::system_error& error) {
    throw std::system_error(error.code(), "no more threads can be started (ulimit -u, pids.max)");
  }
}

// Runs `work` on so many threads at the same time, and returns the first error; an exception is one, too. If
// the host has no more threads, fewer do the work.
Status RunOnThreads(size_t threads, const std::function<Status()>& work);

// How many processors this process may use. At least 1; 1 if the kernel does not tell.
inline uint32_t AllowedProcessors() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return static_cast<uint32_t>(std::max(1, CPU_COUNT(&allowed)));
}

// A request to stop, for which a thread waits between its turns.

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
