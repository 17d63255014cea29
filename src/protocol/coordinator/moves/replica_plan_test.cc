#include "protocol/coordinator/moves/replica_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace leat::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ReplicaBalance After(ReplicaBalance balance) {
  for (const ReplicaChange& change : PlanReplicaChanges(balance))
    balance.slices[change.slice].replica = change.to;
  return balance;
}

TEST(ReplicaPlan, OneServerHasNone) {
  EXPECT_THAT(PlanReplicaChanges({.slices = {{0, {}, 0.5}, {0, {}, 0.5}}, .weights = {1}}), IsEmpty());
}

TEST(ReplicaPlan, TwoServersHaveEachOthers) {
  const ReplicaBalance balance{.slices = {{0, {}, 0.5}, {1, {}, 0.5}}, .weights = {1, 1}};
  EXPECT_THAT(PlanReplicaChanges(balance), ElementsAre(ReplicaChange{0, 1}, ReplicaChange{1, 0}));
}

TEST(ReplicaPlan, WhatAServerThatLeavesHasGoesToOthersOrIsGivenUp) {
  EXPECT_THAT(PlanReplicaChanges({.slices = {{0, 1, 1}}, .weights = {1, 0, 1}}),
              ElementsAre(ReplicaChange{0, 2}));
  EXPECT_THAT(PlanReplicaChanges({.slices = {{0, 1, 1}}, .weights = {1, 0}}),
              ElementsAre(ReplicaChange{0, std::nullopt}));
  // A server that is none of those that may have slices.
  EXPECT_THAT(PlanReplicaChanges({.slices = {{0, UINT32_MAX, 1}}, .weights = {1, 1}}),
              ElementsAre(ReplicaChange{0, 1}));
}

// Random clusters: a replica is never with its slice, the load is level, and the plan is a fixed point.
TEST(ReplicaPlan, LevelsTheLoadAndLeavesTheRest) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    ReplicaBalance balance;
    const uint32_t servers = 2 + static_cast<uint32_t>(rng.Below(5));
    for (uint32_t server = 0; server < servers; ++server)
      balance.weights.push_back(server >= 2 && rng.Chance(0.2) ? 0 : 1);
    const uint32_t slices = 12 * servers;
    for (uint32_t i = 0; i < slices; ++i) {
      uint32_t server = i % servers;
      if (balance.weights[server] <= 0) server = 0;
      ReplicaBalance::Slice slice{server, {}, 1.0 / slices};
      if (rng.Chance(0.5))
        slice.replica = (server + 1 + static_cast<uint32_t>(rng.Below(servers - 1))) % servers;
      balance.slices.push_back(slice);
    }
    const ReplicaBalance after = After(balance);
    std::vector<uint32_t> count(servers, 0);
    for (const auto& slice : after.slices) {
      ASSERT_TRUE(slice.replica.has_value()) << seed;
      EXPECT_NE(*slice.replica, slice.server) << seed;
      EXPECT_GT(balance.weights[*slice.replica], 0) << seed;
      ++count[*slice.replica];
    }
    EXPECT_THAT(PlanReplicaChanges(after), IsEmpty()) << seed;
    const auto takers = static_cast<uint32_t>(std::ranges::count(balance.weights, 1.0));
    for (uint32_t server = 0; server < servers && takers > 2; ++server)
      EXPECT_LE(count[server], 1 + 1.5 * slices / takers) << "seed " << seed << ", server " << server;
  }
}

}  // namespace
}  // namespace leat::protocol
