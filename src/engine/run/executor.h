// Runs prepared steps on several threads, each as soon as all it waits for are done.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/memory_plan.h"
#include "engine/run/thread_pool.h"
#include "graph/kernel.h"

namespace leat::engine {

// One call of one kernel with its memory.
struct Step {
  graph::Kernel* kernel = nullptr;
  graph::KernelArgs args;
};

// What is to run, in which order, how urgently. Belongs to the caller, who keeps it in place.
struct Schedule {
  const std::vector<Step>& steps;
  const std::vector<std::vector<StepIndex>>& dependencies;  // by step, those below it that it waits for
  // By step, in any unit: of several that are ready the most urgent goes first. What takes longest from here
  // to the end is (CriticalPaths).
  const std::vector<double>& priority;
  // Steps that also wait for something from outside, once each: Arrived().
  const std::vector<StepIndex>& awaited;
};

// By step, the cost of the longest way from its beginning to the end.
std::vector<double> CriticalPaths(const std::vector<double>& costs,
                                  const std::vector<std::vector<StepIndex>>& dependencies);

class QueueExecutor final : private ThreadPool::Job {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // `threads` counts the one that calls Run.
  QueueExecutor(const Schedule& schedule, int threads, std::shared_ptr<ThreadPool> pool);
  ~QueueExecutor();
  QueueExecutor(const QueueExecutor&) = delete;
  QueueExecutor& operator=(const QueueExecutor&) = delete;

  // Begin, Release and Work. What a kernel throws ends the run and comes out of here.
  void Run();

  // In pieces, for one of several executors that wait for each other. All begin before any is released; a run
  // ends with Work or Wait. Nothing here allocates.
  void Begin();
  // From here on steps run that wait for nothing, should a thread of the pool still be here.
  void Release();
  // Lets threads of the pool run what is ready.
  void Start();
  // Something that `step` waits for has come. Any thread, after Begin; nothing happens when the run is over.
  void Arrived(StepIndex step);
  // No further step begins in this run, and Work and Wait throw `why` (or what a kernel threw before). Any
  // thread.
  void Stop(std::exception_ptr why);
  // Runs steps in this thread too until all are done. False when the deadline passes first; then Stop and
  // Wait.
  bool Work(Deadline deadline);
  // Returns when all are done and no thread runs a step of this run any more. False as above.
  bool Wait(Deadline deadline);
  // Called with what a kernel has thrown, by the thread that ran it, before Work or Wait return. Set once.
  void OnFailure(std::function<void(const std::exception_ptr&)> f) { on_failure_ = std::move(f); }

 private:
  void Help() override;
  // With mutex_ held, all of these:
  void RunOne(std::unique_lock<std::mutex>& lock);
  void Finish(StepIndex step);
  void MakeReady(StepIndex step);
  StepIndex PopReady();
  void SubmitHelp(size_t mine);  // `mine`: ready steps that the calling thread takes itself
  bool Over() const { return running_ == 0 && (remaining_ == 0 || failure_ != nullptr); }
  void RethrowFailure();

  const Schedule schedule_;
  const int threads_;
  const std::shared_ptr<ThreadPool> pool_;
  std::function<void(const std::exception_ptr&)> on_failure_;
  std::vector<uint32_t> initial_counts_;            // by step, what it waits for
  std::vector<std::vector<StepIndex>> successors_;  // by step, what waits for it
  std::vector<StepIndex> roots_;                    // steps that wait for nothing

  std::mutex mutex_;
  std::condition_variable wake_;  // of the caller: a step became ready, or the run is over
  std::vector<uint32_t> counts_;  // by step, what it still waits for
  std::vector<StepIndex> ready_;  // a heap by urgency, with room for all
  size_t remaining_ = 0;          // steps of this run that are not done
  int active_ = 0;                // threads that look for steps or have been asked to
  int running_ = 0;               // of them, those that run one
  bool caller_sleeps_ = false;
  std::exception_ptr failure_;
  std::atomic<bool> something_{false};  // to do, or the run is over: what a spinning thread looks for
};

}  // namespace leat::engine
