// Memory planning: assigns each block an offset in one arena, by the steps that use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compute/tensor/buffer.h"

namespace leat::engine {

using StepIndex = uint32_t;

// The order of steps that holds for every thread schedule.
class StepOrder {
 public:
  // Steps run one after the other, in numeric order.
  static StepOrder Serial() { return StepOrder(); }
  // dependencies[i]: the steps below i that step i waits for. Steps without a chain of dependencies between
  // them may run at the same time.
  static StepOrder ByDependencies(const std::vector<std::vector<StepIndex>>& dependencies);

  // Whether step a always ends before step b begins.
  bool Before(StepIndex a, StepIndex b) const {
    if (a >= b) return false;
    return ancestors_.empty() || (ancestors_[b][a / 64] >> (a % 64) & 1) != 0;
  }

 private:
  StepOrder() = default;
  // By step: a bit for each step that ends before it begins; empty if serial.
  std::vector<std::vector<uint64_t>> ancestors_;
};

struct Block {
  size_t bytes = 0;
  StepIndex first = 0;           // the step that writes it first
  std::vector<StepIndex> steps;  // all that read or write it, including `first`
};

struct MemoryPlan {
  std::vector<size_t> offsets;  // by block, multiples of Buffer::kAlignment
  size_t bytes = 0;             // size of the arena
};

// Blocks overlap only if all steps of one end before the first step of the other begins. Places the largest
// blocks first, each in the smallest gap that is free for its lifetime (Pisarchyk and Lee 2020, "greedy by
// size").
MemoryPlan PlanMemory(const std::vector<Block>& blocks, const StepOrder& order);
// No blocks overlap.
MemoryPlan PlanWithoutSharing(const std::vector<Block>& blocks);
// The most bytes in use at any step when steps run one after the other: a lower bound for serial plans.
size_t LargestLiveBytes(const std::vector<Block>& blocks);

}  // namespace leat::engine
