// One thread's event loop: sockets, timers and work posted from other threads (a thin face of asio's
// io_context).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/clock.h"

namespace leat::net {

class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Thread-safe: `work` runs on the thread that runs the loop, in order of posting.
  void Post(std::function<void()> work);
  // Loop's thread only. Returns a handle for Cancel; the work runs once, not before `delay` has passed.
  uint64_t After(Duration delay, std::function<void()> work);
  void Cancel(uint64_t timer);

  // Runs until Stop, from the calling thread, which is the loop's thread from then on.
  void Run();
  // Runs what is ready, waiting for at most `wait` for the first of it; false when stopped.
  bool RunOnce(Duration wait);
  // Thread-safe; Run returns soon. A stopped loop stays stopped.
  void Stop();
  Time Now() const;

  struct Impl;  // asio inside
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace leat::net
