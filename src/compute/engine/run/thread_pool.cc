#include "compute/engine/run/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "base/threads/thread.h"
#include "compute/engine/devices/devices.h"

namespace leat::engine {
namespace {

// About the time to wake a sleeping thread; spinning longer does not pay off.
constexpr auto kSpin = std::chrono::microseconds(20);

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void RunOn(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) {
    if (core < CPU_SETSIZE) CPU_SET(core, &set);
  }
  // If this is not permitted, the thread runs on any core, which is only slower.
  if (CPU_COUNT(&set) > 0) sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

bool SpinUntil(bool (*done)(const void*), const void* argument) {
  static const bool several_cores = UsableCores() > 1;
  if (done(argument) || !several_cores) return done(argument);
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 16; ++i) {
      Pause();
      if (done(argument)) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return done(argument);
}

ThreadPool::ThreadPool(std::vector<int> cores) : cores_(std::move(cores)) {}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    LEAT_CHECK(first_ == nullptr);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Grow(int threads) {
  std::lock_guard lock(mutex_);
  threads_.reserve(static_cast<size_t>(std::max(threads, 0)));
  while (static_cast<int>(threads_.size()) < threads) threads_.push_back(StartThread([this] { Work(); }));
}

int ThreadPool::threads() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(threads_.size());
}

void ThreadPool::Submit(Job& job, int threads) {
  if (threads <= 0) return;
  {
    std::lock_guard lock(mutex_);
    if (job.wanted_ == 0) {
      job.next_ = nullptr;
      (last_ != nullptr ? last_->next_ : first_) = &job;
      last_ = &job;
    }
    job.wanted_ += threads;
    pending_ += threads;
  }
  for (int i = 0; i < threads; ++i) wake_.notify_one();
}

void ThreadPool::CancelAndWait(Job& job) {
  std::unique_lock lock(mutex_);
  if (job.wanted_ > 0) {
    Job* before = nullptr;
    for (Job* j = first_; j != &job; j = j->next_) before = j;
    (before != nullptr ? before->next_ : first_) = job.next_;
    if (last_ == &job) last_ = before;
    pending_ -= job.wanted_;
    job.wanted_ = 0;
  }
  left_.wait(lock, [&] { return job.helping_ == 0; });
}

ThreadPool::Job* ThreadPool::TakeJob() {
  Job* job = first_;
  --pending_;
  if (--job->wanted_ == 0) {
    first_ = job->next_;
    if (first_ == nullptr) last_ = nullptr;
  }
  ++job->helping_;
  return job;
}

void ThreadPool::Work() {
  RunOn(cores_);
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || first_ != nullptr; });
    if (stop_) return;
    Job* job = TakeJob();
    lock.unlock();
    job->Help();
    lock.lock();
    if (--job->helping_ == 0) left_.notify_all();
    lock.unlock();
    // A plan in a loop submits again soon.
    SpinUntil([this] { return pending_.load(std::memory_order_relaxed) > 0; });
    lock.lock();
  }
}

std::shared_ptr<ThreadPool> ThreadPool::OfProcess() {
  static std::mutex mutex;
  static std::weak_ptr<ThreadPool> shared;
  std::lock_guard lock(mutex);
  std::shared_ptr<ThreadPool> pool = shared.lock();
  if (!pool) shared = pool = std::make_shared<ThreadPool>();
  return pool;
}

}  // namespace leat::engine
