#include "compute/engine/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace leat::engine {
namespace {

size_t RoundUp(size_t bytes) {
  return (bytes + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
}

// Whether all uses of `earlier` end before `later` begins.
bool OverBefore(const Block& earlier, const Block& later, const StepOrder& order) {
  return std::ranges::all_of(earlier.steps, [&](StepIndex step) { return order.Before(step, later.first); });
}

struct Extent {
  size_t begin, end;
};

// The start of the smallest gap of at least `bytes` between `taken`, which are sorted by begin; else their
// end.
size_t BestFit(const std::vector<Extent>& taken, size_t bytes) {
  size_t best = SIZE_MAX, best_gap = SIZE_MAX, end = 0;
  for (const Extent& extent : taken) {
    if (extent.begin > end) {
      const size_t gap = extent.begin - end;
      if (gap >= bytes && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
    }
    end = std::max(end, extent.end);
  }
  return best == SIZE_MAX ? end : best;
}

}  // namespace

StepOrder StepOrder::ByDependencies(const std::vector<std::vector<StepIndex>>& dependencies) {
  StepOrder order;
  const size_t words = dependencies.size() / 64 + 1;
  order.ancestors_.assign(dependencies.size(), std::vector<uint64_t>(words));
  for (size_t i = 0; i < dependencies.size(); ++i) {
    std::vector<uint64_t>& mine = order.ancestors_[i];
    for (StepIndex d : dependencies[i]) {
      mine[d / 64] |= uint64_t{1} << (d % 64);
      for (size_t w = 0; w < words; ++w) mine[w] |= order.ancestors_[d][w];
    }
  }
  return order;
}

MemoryPlan PlanMemory(const std::vector<Block>& blocks, const StepOrder& order) {
  std::vector<size_t> by_size(blocks.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::ranges::stable_sort(by_size, [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });

  MemoryPlan plan{.offsets = std::vector<size_t>(blocks.size()), .bytes = 0};
  std::vector<size_t> placed;
  std::vector<Extent> taken;
  for (size_t i : by_size) {
    const size_t bytes = RoundUp(blocks[i].bytes);
    taken.clear();
    for (size_t j : placed) {
      if (OverBefore(blocks[i], blocks[j], order) || OverBefore(blocks[j], blocks[i], order)) continue;
      taken.push_back({plan.offsets[j], plan.offsets[j] + RoundUp(blocks[j].bytes)});
    }
    std::ranges::sort(taken, {}, &Extent::begin);
    plan.offsets[i] = BestFit(taken, bytes);
    plan.bytes = std::max(plan.bytes, plan.offsets[i] + bytes);
    placed.push_back(i);
  }
  return plan;
}

MemoryPlan PlanWithoutSharing(const std::vector<Block>& blocks) {
  MemoryPlan plan;
  for (const Block& block : blocks) {
    plan.offsets.push_back(plan.bytes);
    plan.bytes += RoundUp(block.bytes);
  }
  return plan;
}

size_t LargestLiveBytes(const std::vector<Block>& blocks) {
  std::vector<int64_t> change;
  for (const Block& block : blocks) {
    const StepIndex last = *std::ranges::max_element(block.steps);
    if (change.size() < last + 2u) change.resize(last + 2u);
    change[block.first] += static_cast<int64_t>(RoundUp(block.bytes));
    change[last + 1u] -= static_cast<int64_t>(RoundUp(block.bytes));
  }
  int64_t live = 0, largest = 0;
  for (int64_t c : change) largest = std::max(largest, live += c);
  return static_cast<size_t>(largest);
}

}  // namespace leat::engine
