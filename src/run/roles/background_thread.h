// A thread for the blocking work of a loop: files, decoding, calls to the coordinator.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

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

}  // namespace leat::roles
