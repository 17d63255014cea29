// Threads that plans share: one pool for each device, or one for the process.
//
// A thread of a pool owns nothing. It helps whoever asks, for as long as there is something to do, then looks
// out for the next for some microseconds and goes to sleep. Asking allocates nothing.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace leat::engine {

// For the time that it is cheaper to look again than to go to sleep: returns as soon as `done` holds, with
// true, or after about 20 µs, with what it says then. At once on a machine with one core, where nothing
// changes meanwhile.
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
    // Called by threads of the pool, any number at once, one call for each that was asked for. Returns when
    // there is nothing to do at the moment. Throws nothing.
    virtual void Help() = 0;

   private:
    friend class ThreadPool;
    int wanted_ = 0;       // threads that have been asked for and have not come yet
    int helping_ = 0;      // calls of Help that have not returned
    Job* next_ = nullptr;  // in the queue of those with wanted_ > 0
  };

  // Its threads run on `cores` alone; on any when there are none.
  explicit ThreadPool(std::vector<int> cores = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Has at least so many threads from now on.
  void Grow(int threads);
  // Asks for `threads` calls of job.Help().
  void Submit(Job& job, int threads);
  // No more calls of job.Help(); returns when the last is over. Must come before the job's end.
  void CancelAndWait(Job& job);

  int threads() const;
  // The one for plans that were told no device. It ends with the last of its users.
  static std::shared_ptr<ThreadPool> OfProcess();

 private:
  void Work();
  Job* TakeJob();  // with mutex_ held

  const std::vector<int> cores_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;  // a job wants threads, or all is over
  std::condition_variable left_;  // a call of Help returned
  Job* first_ = nullptr;
  Job* last_ = nullptr;
  std::atomic<int> pending_{0};  // Σ wanted_
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace leat::engine
