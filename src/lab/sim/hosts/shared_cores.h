// Cores of a host that has fewer of them than its roles have threads. All threads that have work get the same
// share of the cores (processor sharing), at most a core each.
//
// A pure data structure over virtual time; calls are in the order of time. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace leat::sim {

class SharedCores {
 public:
  explicit SharedCores(double cores) : cores_(cores) {}

  // The part of a core that each busy thread has, with `more` further ones.
  double Share(uint32_t more = 0) const;
  // A task with this much work for each of its threads begins.
  void Begin(Time now, uint32_t task, Duration work, uint32_t threads = 1);
  // When the next task ends, unless another one begins before; Time::max() if there is none.
  Time NextEnd() const;
  // Ends a task that is done by `now`; false if there is none.
  bool End(Time now, uint32_t* task);

 private:
  struct Task {
    double end = 0;  // on the clock `work_`
    uint64_t order = 0;
    uint32_t task = 0;
    uint32_t threads = 0;
    // For a heap with the first end on top.
    friend bool operator<(const Task& a, const Task& b) {
      return a.end != b.end ? a.end > b.end : a.order > b.order;
    }
  };
  void Advance(Time now);

  double cores_;
  uint32_t threads_ = 0;  // threads of all tasks
  double work_ = 0;       // ns of work that a thread would have done that was always busy
  Time now_{0};           // time of `work_`
  uint64_t order_ = 0;
  std::vector<Task> tasks_;  // a heap
};

}  // namespace leat::sim
