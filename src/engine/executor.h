// Runs prepared steps on several threads, each as soon as all it waits for are done (row G3).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/memory_plan.h"
#include "graph/kernel.h"

namespace leat::engine {

// One call of one kernel with its memory.
struct Step {
  graph::Kernel* kernel = nullptr;
  graph::KernelArgs args;
};

class QueueExecutor {
 public:
  // `steps` belong to the caller, who keeps them in place. dependencies[i]: steps below i that step i waits
  // for. costs[i]: time that step i takes, in any unit: of several ready steps the one with the longest way
  // to the end goes first. `threads` counts the one that calls Run.
  QueueExecutor(const std::vector<Step>& steps, const std::vector<std::vector<StepIndex>>& dependencies,
                const std::vector<double>& costs, int threads);
  ~QueueExecutor();
  QueueExecutor(const QueueExecutor&) = delete;
  QueueExecutor& operator=(const QueueExecutor&) = delete;

  // Returns when all steps have run. Allocates nothing. For one thread at a time.
  void Run();

 private:
  void Work(bool caller);
  void PushReady(StepIndex step);  // with mutex_ held, as all below
  StepIndex PopReady();
  // Counts the step as done, and what waited for it alone as ready. Returns how many became so.
  size_t Finish(StepIndex step);

  const std::vector<Step>& steps_;
  std::vector<uint32_t> initial_counts_;            // by step, what it waits for
  std::vector<std::vector<StepIndex>> successors_;  // by step, what waits for it
  std::vector<double> urgency_;                     // by step, cost of the longest way to the end
  std::vector<StepIndex> roots_;                    // steps that wait for nothing

  std::mutex mutex_;
  std::condition_variable wake_;  // a step became ready, the run is over, or all is
  std::vector<uint32_t> counts_;  // by step, what it still waits for
  std::vector<StepIndex> ready_;  // a heap by urgency, with room for all
  size_t remaining_ = 0;          // steps of this run that are not done
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace leat::engine
