// Runs a function for many seeds, in processes of its own: one that aborts, throws or hangs is a failed seed,
// and the others go on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"

namespace leat::soak {

struct SeedPoolOptions {
  uint64_t first = 1;
  uint64_t count = 1;
  uint32_t processes = 1;
  // In real time, for one seed; it hangs, if it takes longer.
  Duration deadline = std::chrono::minutes(10);
  // Runs one seed in a child process. Its result is handed to `on_result`.
  std::function<std::string(uint64_t seed)> run;
  std::function<void(uint64_t seed, const std::string& result)> on_result;
  // The process has ended before `run` has returned; `why` in one line.
  std::function<void(uint64_t seed, const std::string& why)> on_death;
  // Called at least every 100 ms.
  std::function<void()> on_wait;
};

// Calls its hooks in this process, in the order in which the seeds end. Call it before the first thread
// starts: the children are forks. They die with this process. Throws std::runtime_error if the system has no
// more processes.
void RunSeeds(const SeedPoolOptions& options);

}  // namespace leat::soak
