#include "compute/engine/run/executor.h"

#include <algorithm>

namespace leat::engine {

std::vector<double> CriticalPaths(const std::vector<double>& costs,
                                  const std::vector<std::vector<StepIndex>>& dependencies) {
  std::vector<double> ways = costs, after(costs.size());
  for (size_t i = costs.size(); i-- > 0;) {
    ways[i] += after[i];
    for (StepIndex d : dependencies[i]) after[d] = std::max(after[d], ways[i]);
  }
  return ways;
}

QueueExecutor::QueueExecutor(const Schedule& schedule, int threads, std::shared_ptr<ThreadPool> pool)
    : schedule_(schedule),
      threads_(threads),
      pool_(std::move(pool)),
      successors_(schedule.steps.size()),
      counts_(schedule.steps.size()) {
  for (StepIndex i = 0; i < schedule.steps.size(); ++i) {
    initial_counts_.push_back(static_cast<uint32_t>(schedule.dependencies[i].size()));
    for (StepIndex d : schedule.dependencies[i]) successors_[d].push_back(i);
  }
  for (StepIndex step : schedule.awaited) ++initial_counts_[step];
  for (StepIndex i = 0; i < schedule.steps.size(); ++i) {
    if (initial_counts_[i] == 0) roots_.push_back(i);
  }
  ready_.reserve(schedule.steps.size());
}

QueueExecutor::~QueueExecutor() {
  pool_->CancelAndWait(*this);
}

void QueueExecutor::Run() {
  Begin();
  Release();
  Work(Deadline::max());
}

void QueueExecutor::Begin() {
  std::lock_guard lock(mutex_);
  std::ranges::copy(initial_counts_, counts_.begin());
  ready_.clear();
  failure_ = nullptr;
  remaining_ = schedule_.steps.size();
  something_ = false;
}

void QueueExecutor::Release() {
  std::lock_guard lock(mutex_);
  if (!failure_) {
    for (StepIndex root : roots_) MakeReady(root);
  }
  something_ = !ready_.empty() || Over();
}

void QueueExecutor::Start() {
  std::lock_guard lock(mutex_);
  SubmitHelp(0);
}

void QueueExecutor::Arrived(StepIndex step) {
  std::lock_guard lock(mutex_);
  if (remaining_ == 0 || failure_ || --counts_[step] > 0) return;
  MakeReady(step);
  SubmitHelp(0);
}

void QueueExecutor::Stop(std::exception_ptr why) {
  std::lock_guard lock(mutex_);
  if (failure_ || remaining_ == 0) return;
  failure_ = std::move(why);
  ready_.clear();
  something_ = true;
  wake_.notify_all();
}

bool QueueExecutor::Work(Deadline deadline) {
  std::unique_lock lock(mutex_);
  ++active_;
  SubmitHelp(1);
  while (!Over()) {
    if (!ready_.empty()) {
      RunOne(lock);
      continue;
    }
    lock.unlock();
    SpinUntil([this] { return something_.load(std::memory_order_relaxed); });
    lock.lock();
    caller_sleeps_ = true;
    const auto awake = [this] { return !ready_.empty() || Over(); };
    // Without a deadline, avoid reading the clock.
    const bool in_time = deadline == Deadline::max() ? (wake_.wait(lock, awake), true)
                                                     : wake_.wait_until(lock, deadline, awake);
    caller_sleeps_ = false;
    if (!in_time) break;
  }
  --active_;
  RethrowFailure();
  return Over();
}

bool QueueExecutor::Wait(Deadline deadline) {
  SpinUntil([this] {
    std::lock_guard lock(mutex_);
    return Over();
  });
  std::unique_lock lock(mutex_);
  if (!wake_.wait_until(lock, deadline, [this] { return Over(); })) return false;
  RethrowFailure();
  return true;
}

void QueueExecutor::RethrowFailure() {
  if (Over() && failure_) std::rethrow_exception(failure_);
}

// Called by a pool thread, which returns when no step is ready. MakeReady asks for threads again.
void QueueExecutor::Help() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!ready_.empty()) {
      RunOne(lock);
      continue;
    }
    if (remaining_ == 0 || failure_) break;
    lock.unlock();
    SpinUntil([this] { return something_.load(std::memory_order_relaxed); });
    lock.lock();
    if (ready_.empty()) break;
  }
  --active_;
}

void QueueExecutor::RunOne(std::unique_lock<std::mutex>& lock) {
  const StepIndex step = PopReady();
  ++running_;
  lock.unlock();
  std::exception_ptr thrown;
  try {
    schedule_.steps[step].kernel->Run(schedule_.steps[step].args);
    schedule_.progress.OnKernel();
  } catch (...) {
    thrown = std::current_exception();
  }
  if (thrown) {
    Stop(thrown);
    if (on_failure_) on_failure_(thrown);
  }
  lock.lock();
  --running_;
  if (!thrown && !failure_) Finish(step);
  if (Over()) {
    something_ = true;
    wake_.notify_all();
  }
}

void QueueExecutor::Finish(StepIndex step) {
  --remaining_;
  for (StepIndex s : successors_[step]) {
    if (--counts_[s] == 0) MakeReady(s);
  }
  SubmitHelp(1);
}

void QueueExecutor::SubmitHelp(size_t mine) {
  if (ready_.size() <= mine) return;
  size_t more = ready_.size() - mine;
  if (caller_sleeps_) {
    wake_.notify_all();
    --more;
  }
  const int ask = std::min(static_cast<int>(more), threads_ - active_);
  if (ask <= 0) return;
  active_ += ask;
  pool_->Submit(*this, ask);
}

void QueueExecutor::MakeReady(StepIndex step) {
  ready_.push_back(step);
  std::ranges::push_heap(ready_, {}, [this](StepIndex s) { return schedule_.priority[s]; });
  something_ = true;
}

StepIndex QueueExecutor::PopReady() {
  std::ranges::pop_heap(ready_, {}, [this](StepIndex s) { return schedule_.priority[s]; });
  const StepIndex step = ready_.back();
  ready_.pop_back();
  something_ = !ready_.empty();
  return step;
}

}  // namespace leat::engine
