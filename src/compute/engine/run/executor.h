// Executes prepared steps on several threads, each as soon as its dependencies are done.
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

#include "compute/engine/memory_plan.h"
#include "compute/engine/run/progress.h"
#include "compute/engine/run/thread_pool.h"
#include "compute/graph/kernel.h"

namespace leat::engine {

// A call of a kernel with its memory.
struct Step {
  graph::Kernel* kernel = nullptr;
  graph::KernelArgs args;
};

// The steps to run, with dependencies and priorities. The caller keeps the vectors alive and unchanged.
struct Schedule {
  const std::vector<Step>& steps;
  const std::vector<std::vector<StepIndex>>& dependencies;  // by step: the lower steps that it waits for
  // By step, in any unit: the ready step with the highest value goes first. See CriticalPaths.
  const std::vector<double>& priority;
  // Steps that also wait for one external event each, see Arrived().
  const std::vector<StepIndex>& awaited;
  Progress& progress;
};

// By step: the cost of the longest path from its start to the end.
std::vector<double> CriticalPaths(const std::vector<double>& costs,
                                  const std::vector<std::vector<StepIndex>>& dependencies);

// Runs a schedule with a priority queue and the threads of a pool. Public functions are for one controlling
// thread unless stated otherwise. Runs allocate no memory.
class QueueExecutor final : private ThreadPool::Job {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // `threads` includes the thread that calls Run.
  QueueExecutor(const Schedule& schedule, int threads, std::shared_ptr<ThreadPool> pool);
  ~QueueExecutor();
  QueueExecutor(const QueueExecutor&) = delete;
  QueueExecutor& operator=(const QueueExecutor&) = delete;

  // Begin, Release and Work. An exception from a kernel ends the run and is rethrown here.
  void Run();

  // The parts of Run, for several executors that wait for each other: call Begin on all, then Release on all,
  // then Work or Wait on each.
  void Begin();
  // Makes the steps without dependencies ready. Pool threads may start them at once.
  void Release();
  // Asks pool threads to run the steps that are ready.
  void Start();
  // Reports the external event that `step` waits for. Thread-safe after Begin; ignored once the run is over.
  void Arrived(StepIndex step);
  // Prevents further steps of this run from starting. Work and Wait then throw `why`, or an earlier exception
  // of a kernel. Thread-safe.
  void Stop(std::exception_ptr why);
  // Runs steps in the calling thread too, until all are done. False if the deadline passes first; then call
  // Stop and Wait.
  bool Work(Deadline deadline);
  // Waits until all steps are done and no thread runs a step of this run. False as above.
  bool Wait(Deadline deadline);
  // Sets a callback for exceptions from kernels. The thread that ran the kernel calls it, before Work or Wait
  // returns. Set it once.
  void OnFailure(std::function<void(const std::exception_ptr&)> f) { on_failure_ = std::move(f); }

 private:
  void Help() override;
  // These require mutex_:
  void RunOne(std::unique_lock<std::mutex>& lock);
  void Finish(StepIndex step);
  void MakeReady(StepIndex step);
  StepIndex PopReady();
  void SubmitHelp(size_t mine);  // `mine`: number of ready steps that the calling thread will run itself
  bool Over() const { return running_ == 0 && (remaining_ == 0 || failure_ != nullptr); }
  void RethrowFailure();

  const Schedule schedule_;
  const int threads_;
  const std::shared_ptr<ThreadPool> pool_;
  std::function<void(const std::exception_ptr&)> on_failure_;
  std::vector<uint32_t> initial_counts_;            // by step: number of dependencies
  std::vector<std::vector<StepIndex>> successors_;  // by step: steps that depend on it
  std::vector<StepIndex> roots_;                    // steps without dependencies

  std::mutex mutex_;
  std::condition_variable wake_;  // wakes the caller: a step became ready, or the run is over
  std::vector<uint32_t> counts_;  // by step: remaining dependencies
  std::vector<StepIndex> ready_;  // heap by priority, with capacity for all steps
  size_t remaining_ = 0;          // steps of this run that are not done
  int active_ = 0;                // threads that look for steps, or were asked to
  int running_ = 0;               // threads that run a step
  bool caller_sleeps_ = false;
  std::exception_ptr failure_;
  std::atomic<bool> something_{false};  // a step is ready or the run is over; polled by spinning threads
};

}  // namespace leat::engine
