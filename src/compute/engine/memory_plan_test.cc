#include "compute/engine/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"

namespace leat::engine {
namespace {

using Dependencies = std::vector<std::vector<StepIndex>>;

TEST(StepOrder, FollowsChainsOfDependencies) {
  // 0 → 1 → 3, 0 → 2
  const StepOrder order = StepOrder::ByDependencies({{}, {0}, {0}, {1}});
  EXPECT_TRUE(order.Before(0, 3));
  EXPECT_TRUE(order.Before(0, 2));
  EXPECT_FALSE(order.Before(1, 2));
  EXPECT_FALSE(order.Before(2, 3));
  EXPECT_FALSE(order.Before(3, 0));
  EXPECT_FALSE(order.Before(1, 1));
  EXPECT_TRUE(StepOrder::Serial().Before(2, 3));
}

TEST(MemoryPlan, GivesAChainTwoPlaces) {
  // Each step reads the output of the previous one.
  std::vector<Block> blocks;
  for (StepIndex i = 0; i < 10; ++i) blocks.push_back({1000, i, {i, i + 1}});
  const MemoryPlan plan = PlanMemory(blocks, StepOrder::Serial());
  EXPECT_EQ(plan.bytes, 2 * 1024u);
  EXPECT_EQ(LargestLiveBytes(blocks), 2 * 1024u);
  EXPECT_EQ(PlanWithoutSharing(blocks).bytes, 10 * 1024u);
}

TEST(MemoryPlan, TakesTheTightestGap) {
  // While block 4 lives, two gaps are free: of 512 bytes (where 1 was) and of 128 (where 3 was).
  const std::vector<Block> blocks = {{1024, 0, {0, 9}}, {512, 0, {0, 1}}, {256, 0, {0, 9}},
                                     {128, 0, {0, 1}},  {64, 0, {0, 9}},  {60, 5, {5, 6}}};
  const MemoryPlan plan = PlanMemory(blocks, StepOrder::Serial());
  EXPECT_EQ(plan.offsets[5], plan.offsets[3]);
}

TEST(MemoryPlan, TakesBlocksOfNoBytesAndNoBlocks) {
  EXPECT_EQ(PlanMemory({}, StepOrder::Serial()).bytes, 0u);
  EXPECT_EQ(LargestLiveBytes({}), 0u);
  EXPECT_EQ(PlanMemory({{0, 0, {0}}, {0, 0, {0}}}, StepOrder::Serial()).bytes, 0u);
}

// Random graphs: blocks that may be in use at the same time never overlap, with either step order.
TEST(MemoryPlan, KeepsLivingBlocksApart) {
  Rng rng(1);
  double shared = 0, live = 0;
  for (int round = 0; round < 200; ++round) {
    const auto n = static_cast<StepIndex>(1 + rng.Below(40));
    Dependencies dependencies(n);
    std::vector<Block> blocks;
    for (StepIndex i = 0; i < n; ++i) {
      for (int j = 0; j < 3 && i > 0; ++j) {
        // Mostly the previous steps: long chains with side branches.
        const auto d = static_cast<StepIndex>(rng.Chance(0.7) ? i - 1 - rng.Below(std::min<StepIndex>(i, 3))
                                                              : rng.Below(i));
        if (std::ranges::find(dependencies[i], d) == dependencies[i].end()) dependencies[i].push_back(d);
      }
      blocks.push_back({rng.Below(5000), i, {i}});
      for (StepIndex d : dependencies[i]) blocks[d].steps.push_back(i);
    }
    const StepOrder by_dependencies = StepOrder::ByDependencies(dependencies);
    for (const StepOrder& order : {StepOrder::Serial(), by_dependencies}) {
      const MemoryPlan plan = PlanMemory(blocks, order);
      for (size_t a = 0; a < n; ++a) {
        ASSERT_EQ(plan.offsets[a] % Buffer::kAlignment, 0u);
        ASSERT_LE(plan.offsets[a] + blocks[a].bytes, plan.bytes);
        for (size_t b = 0; b < a; ++b) {
          const bool apart = plan.offsets[a] + blocks[a].bytes <= plan.offsets[b] ||
                             plan.offsets[b] + blocks[b].bytes <= plan.offsets[a];
          // Either all uses of b end before a begins, or the two do not overlap.
          const bool over = std::ranges::all_of(
              blocks[b].steps, [&](StepIndex s) { return order.Before(s, blocks[a].first); });
          ASSERT_TRUE(apart || over) << "blocks " << b << " and " << a << " of round " << round;
        }
      }
    }
    const size_t serial = PlanMemory(blocks, StepOrder::Serial()).bytes, least = LargestLiveBytes(blocks);
    ASSERT_GE(serial, least);
    ASSERT_LE(serial, PlanWithoutSharing(blocks).bytes);
    shared += static_cast<double>(serial);
    live += static_cast<double>(least);
  }
  // The average overhead over the lower bound.
  EXPECT_LE(shared / live, 1.10);
}

}  // namespace
}  // namespace leat::engine
