// A thread for the blocking work of a loop: files, decoding, calls to the coordinator.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/threads/thread.h"
#include "net/loop.h"

namespace leat::roles {

// Nice value of a thread that writes checkpoints while training goes on: it gets enough of a core for the
// disk, and takes little from a step.
constexpr int kNiceWithFiles = 10;

class BackgroundThread {
 public:
  // `nice`: how much less of the processors the thread gets than others of this process, as in nice(2).
  explicit BackgroundThread(int nice = 0)
      : thread_(StartThread([this, nice] {
          // Linux has a nice value for each thread. If it cannot be set, the thread is as good as others.
          if (nice > 0) (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), nice);
          Run();
        })) {}
  ~BackgroundThread() { End(); }

  // Waits for the work in progress and drops queued work, also what is posted later.
  void End() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  // Queues work; it runs in the order of the calls. An exception of it ends the process
  // (base/threads/thread.h): work reports errors as its results, and what waits for them cannot go on
  // without. Thread-safe.
  void Post(std::function<void()> work) {
    {
      std::lock_guard lock(mutex_);
      if (stop_) return;
      queue_.push_back(std::move(work));
    }
    wake_.notify_one();
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      auto work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
    }
  }

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
      auto result = std::make_shared<decltype(work())>(work());
      loop_.Post([this, done, result] {
        if (!ended_) done(std::move(*result));
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

// A blocking call of a thread that has other things to do meanwhile: it runs on a background thread, one at a
// time, and its result is taken when it is there. All functions are called by one thread.
template <class Outcome>
class BackgroundCall {
 public:
  bool busy() const { return busy_; }  // since Start, until Take returns the outcome
  void Start(std::function<Outcome()> call) {
    busy_ = true;
    thread_.Post([this, call = std::move(call)] {
      Outcome outcome = call();
      std::lock_guard lock(mutex_);
      outcome_.emplace(std::move(outcome));
    });
  }
  // None: there is no call, or it goes on.
  std::optional<Outcome> Take() {
    std::lock_guard lock(mutex_);
    if (outcome_) busy_ = false;
    return std::exchange(outcome_, std::nullopt);
  }

 private:
  bool busy_ = false;
  std::mutex mutex_;
  std::optional<Outcome> outcome_;  // guarded by mutex_
  BackgroundThread thread_;         // uses the members above
};

}  // namespace leat::roles
