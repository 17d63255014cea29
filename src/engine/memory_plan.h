// Where in one arena each block of memory lies, given when it is in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/buffer.h"

namespace leat::engine {

using StepIndex = uint32_t;

// Which steps are over before another begins, whatever the threads do.
class StepOrder {
 public:
  // Steps run one after the other, as numbered.
  static StepOrder Serial() { return StepOrder(); }
  // dependencies[i]: steps below i that step i waits for. What no chain of them orders may run at the same
  // time.
  static StepOrder ByDependencies(const std::vector<std::vector<StepIndex>>& dependencies);

  bool Before(StepIndex a, StepIndex b) const {
    if (a >= b) return false;
    return ancestors_.empty() || (ancestors_[b][a / 64] >> (a % 64) & 1) != 0;
  }

 private:
  StepOrder() = default;
  // By step, a bit for each step that is over before it begins; empty when serial.
  std::vector<std::vector<uint64_t>> ancestors_;
};

struct Block {
  size_t bytes = 0;
  StepIndex first = 0;           // the step that writes it first
  std::vector<StepIndex> steps;  // all that read or write it, `first` among them
};

struct MemoryPlan {
  std::vector<size_t> offsets;  // by block, multiples of Buffer::kAlignment
  size_t bytes = 0;             // of the arena
};

// Blocks overlap only when one is out of use before the other's first step begins. Largest first, each in the
// tightest gap that is free for all of its life (Pisarchyk and Lee 2020, "greedy by size").
MemoryPlan PlanMemory(const std::vector<Block>& blocks, const StepOrder& order);
// Every block has a place of its own.
MemoryPlan PlanWithoutSharing(const std::vector<Block>& blocks);
// The most bytes in use at one step when all run one after the other; what no plan for that can go below.
size_t LargestLiveBytes(const std::vector<Block>& blocks);

}  // namespace leat::engine
