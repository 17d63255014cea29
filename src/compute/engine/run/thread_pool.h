// Thread pools shared by plans: one per device, or one for the process.
//
// A pool thread helps with submitted jobs as long as they have work, then polls for some microseconds and
// goes to sleep. Submitting allocates no memory. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace leat::engine {

// Polls `done` for about 20 µs, since a short wait is cheaper than sleeping. Returns true as soon as it
// holds, else its last value. On a machine with one core it returns immediately.
bool SpinUntil(bool (*done)(const void*), const void* argument);
template <class F>
bool SpinUntil(const F& done) {
  return SpinUntil([](const void* f) { return (*static_cast<const F*>(f))(); }, &done);
}

class ThreadPool {
 public:
  // Work that several threads can help with.
  class Job {
   public:
    virtual ~Job() = default;
    // Called by pool threads, possibly concurrently, once for each call that was submitted. Returns when
    // there is no work at the moment. Must not throw.
    virtual void Help() = 0;

   private:
    friend class ThreadPool;
    int wanted_ = 0;       // submitted calls that have not started
    int helping_ = 0;      // calls of Help that have not returned
    Job* next_ = nullptr;  // in the queue of jobs with wanted_ > 0
  };

  // Pins its threads to `cores`; if empty, they run on any core.
  explicit ThreadPool(std::vector<int> cores = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Ensures at least this number of threads.
  void Grow(int threads);
  // Requests `threads` calls of job.Help().
  void Submit(Job& job, int threads);
  // Cancels outstanding calls of job.Help() and waits for those that run. Call it before destroying the job.
  void CancelAndWait(Job& job);

  int threads() const;
  // The pool for plans without devices, created on demand and destroyed with its last user.
  static std::shared_ptr<ThreadPool> OfProcess();

 private:
  void Work();
  Job* TakeJob();  // with mutex_ held

  const std::vector<int> cores_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;  // a job was submitted, or the pool stops
  std::condition_variable left_;  // a call of Help returned
  Job* first_ = nullptr;
  Job* last_ = nullptr;
  std::atomic<int> pending_{0};  // Σ wanted_
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace leat::engine
