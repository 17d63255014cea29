#include "engine/executor.h"

#include <algorithm>

namespace leat::engine {

QueueExecutor::QueueExecutor(const std::vector<Step>& steps,
                             const std::vector<std::vector<StepIndex>>& dependencies,
                             const std::vector<double>& costs, int threads)
    : steps_(steps), successors_(steps.size()), urgency_(costs) {
  for (StepIndex i = 0; i < steps.size(); ++i) {
    initial_counts_.push_back(static_cast<uint32_t>(dependencies[i].size()));
    if (dependencies[i].empty()) roots_.push_back(i);
    for (StepIndex d : dependencies[i]) successors_[d].push_back(i);
  }
  for (size_t i = steps.size(); i-- > 0;) {
    double longest = 0;
    for (StepIndex s : successors_[i]) longest = std::max(longest, urgency_[s]);
    urgency_[i] += longest;
  }
  counts_ = initial_counts_;
  ready_.reserve(steps.size());
  for (int i = 1; i < threads; ++i) threads_.emplace_back([this] { Work(false); });
}

QueueExecutor::~QueueExecutor() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void QueueExecutor::Run() {
  {
    std::lock_guard lock(mutex_);
    std::ranges::copy(initial_counts_, counts_.begin());
    for (StepIndex root : roots_) PushReady(root);
    remaining_ = steps_.size();
  }
  wake_.notify_all();
  Work(true);
}

// The caller leaves when the run is over; the other threads wait for the next one.
void QueueExecutor::Work(bool caller) {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || !ready_.empty() || (caller && remaining_ == 0); });
    if (stop_ || (caller && remaining_ == 0)) return;
    const StepIndex step = PopReady();
    lock.unlock();
    steps_[step].kernel->Run(steps_[step].args);
    lock.lock();
    // One of the steps that became ready is this thread's; the others are for those that sleep.
    const size_t fresh = Finish(step);
    for (size_t i = 1; i < fresh; ++i) wake_.notify_one();
    if (remaining_ == 0) wake_.notify_all();
  }
}

size_t QueueExecutor::Finish(StepIndex step) {
  size_t fresh = 0;
  for (StepIndex s : successors_[step]) {
    if (--counts_[s] > 0) continue;
    PushReady(s);
    ++fresh;
  }
  --remaining_;
  return fresh;
}

void QueueExecutor::PushReady(StepIndex step) {
  ready_.push_back(step);
  std::ranges::push_heap(ready_, {}, [this](StepIndex s) { return urgency_[s]; });
}

StepIndex QueueExecutor::PopReady() {
  std::ranges::pop_heap(ready_, {}, [this](StepIndex s) { return urgency_[s]; });
  const StepIndex step = ready_.back();
  ready_.pop_back();
  return step;
}

}  // namespace leat::engine
