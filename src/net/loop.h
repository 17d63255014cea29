// Event loop of a thread: sockets, timers and work posted from other threads.
//
// It uses epoll directly. Interest in reading is registered once per connection, so the round trip of a small
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
  // Destroy everything made with the loop (transports, connections) first. Drops posted work and pending
  // timers.
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Thread-safe. `work` runs on the loop's thread, in order of posting, never inside Post.
  void Post(std::function<void()> work);
  // Loop's thread only. Runs `work` once, after at least `delay`. Returns a handle for Cancel.
  uint64_t After(Duration delay, std::function<void()> work);
  // Does nothing for 0 and for a timer that has run or was cancelled.
  void Cancel(uint64_t timer);

  // Runs until Stop. The calling thread becomes the loop's thread.
  void Run();
  // Runs ready work, waiting at most `wait` for the first. Returns false when stopped. Not to be called from
  // work that the loop runs.
  bool RunOnce(Duration wait);
  // Like Run, but also if the loop is stopped: until `done` returns true, at most until `deadline`.
  void RunUntil(const std::function<bool()>& done, Time deadline);
  // Thread-safe; Run returns soon. A stopped loop stays stopped.
  void Stop();
  Time Now() const;
  // Thread-safe. True on the loop's thread.
  bool OnItsThread() const;

  // Exists while the caller waits for a reply. An idle loop then polls before it sleeps: for a few
  // milliseconds, or for as long as it was just busy. It yields the core to any thread that needs it. On a
  // virtual machine, waking up can cost more than the reply takes; and peers with equal work answer at about
  // the same time. The loop stops polling if replies take longer. Loop's thread only; the loop must outlive
  // it.
  class BusyPoll {
   public:
    explicit BusyPoll(Loop& loop);
    ~BusyPoll();
    BusyPoll(const BusyPoll&) = delete;
    BusyPoll& operator=(const BusyPoll&) = delete;

   private:
    Loop& loop_;
  };

  struct Impl;  // internals for transports: poller.h
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace leat::net
