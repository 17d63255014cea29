// One thread's event loop: sockets, timers and work posted from other threads.
//
// Straight on epoll: a connection's interest in reading is registered once, so a round trip of a small
// message costs one wait, one read and one write.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/clock.h"

namespace leat::net {

class Loop {
 public:
  Loop();
  // Whatever was made with the loop (transports, connections) is destroyed before it. Work that was posted
  // and timers that are not due yet are dropped.
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Thread-safe: `work` runs on the thread that runs the loop, in order of posting, never from within Post.
  void Post(std::function<void()> work);
  // Loop's thread only. Returns a handle for Cancel; the work runs once, not before `delay` has passed.
  uint64_t After(Duration delay, std::function<void()> work);
  // Of a timer that has run, or was cancelled, or 0: nothing happens.
  void Cancel(uint64_t timer);

  // Runs until Stop, from the calling thread, which is the loop's thread from then on.
  void Run();
  // Runs what is ready, waiting for at most `wait` for the first of it; false when stopped. Not to be called
  // from within work that the loop runs.
  bool RunOnce(Duration wait);
  // Thread-safe; Run returns soon. A stopped loop stays stopped.
  void Stop();
  Time Now() const;
  // Thread-safe: whether the caller is on the loop's thread.
  bool OnItsThread() const;

  // While there is one, what a peer answers is waited for: the loop, with nothing to do, looks for it for
  // some milliseconds, or for as long as it has just been busy, before it sleeps, and gives way meanwhile to
  // any thread that wants the core. A sleeper's core is given away, on a virtual machine to somebody else's,
  // and to get it back can take longer than the answer; and who had as much to do as this one, and was held
  // up a little, is not much later. Where answers take longer than that the loop soon stops looking. Loop's
  // thread only; the loop outlives it.
  class BusyPoll {
   public:
    explicit BusyPoll(Loop& loop);
    ~BusyPoll();
    BusyPoll(const BusyPoll&) = delete;
    BusyPoll& operator=(const BusyPoll&) = delete;

   private:
    Loop& loop_;
  };

  struct Impl;  // what transports need of it: poller.h
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace leat::net
