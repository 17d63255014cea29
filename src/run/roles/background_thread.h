// A thread for the blocking work of a loop: files, decoding, calls to the coordinator.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "net/loop.h"

namespace leat::roles {

// Nice value of a thread that writes checkpoints while training goes on: it gets enough of a core for the
// disk, and takes little from a step.
constexpr int kNiceWithFiles = 10;

class BackgroundThread {
 public:
  // `nice`: how much less of the processors the thread gets than others of this process, as in nice(2).
  explicit BackgroundThread(int nice = 0);
  ~BackgroundThread() { End(); }
  // Waits for the work in progress and drops queued work, also what is posted later.
  void End();
  // Queues work; it runs in the order of the calls. An exception of it ends the process
  // (base/threads/thread.h): work reports errors as its results, and what waits for them cannot go on
  // without. Thread-safe.
  void Post(std::function<void()> work);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool stop_ = false;
  std::thread thread_;
};

// Blocking work of a role with a loop: the work runs on a background thread, and what follows from its result
// on the loop, unless the role has ended by then. The role outlives the threads. Loop's thread only.
class LoopWork {
 public:
  explicit LoopWork(net::Loop& loop) : loop_(loop) {}

  net::Loop& loop() { return loop_; }
  template <class Work, class Done>
  void Post(BackgroundThread& thread, Work work, Done done) {
    thread.Post([this, work = std::move(work), done = std::move(done)] {
      loop_.Post([this, done, result = work()]() mutable {
        if (!ended_) done(std::move(result));
      });
    });
  }
  // The role has ended: results that come now are dropped.
  void End() { ended_ = true; }
  bool ended() const { return ended_; }

 private:
  net::Loop& loop_;
  bool ended_ = false;
};

}  // namespace leat::roles
