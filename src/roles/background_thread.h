// One thread that works off what a loop must not wait for: files, decoding, calls to the coordinator.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace leat::train {

class BackgroundThread {
 public:
  BackgroundThread();
  // Ends after the work under way; what is queued behind it is dropped.
  ~BackgroundThread();
  // Thread-safe; in order of posting.
  void Post(std::function<void()> work);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace leat::train
