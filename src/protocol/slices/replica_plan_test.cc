#include "protocol/slices/replica_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "protocol/topology/server_hosts.h"

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

// Two sites of two zones, any number of servers in each: each replica is in another zone of its slice's site,
// also after servers have gone, and a plan leaves nothing to do.
TEST(ReplicaPlan, ReplicasAreInOtherZones) {
  const topology::HostPlace places[] = {
      {"north", "a", ""}, {"north", "b", ""}, {"south", "a", ""}, {"south", "b", ""}};
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    Rng rng(seed);
    std::vector<topology::HostPlace> servers;
    for (const topology::HostPlace& place : places) servers.insert(servers.end(), 1 + rng.Below(3), place);
    ReplicaBalance balance{.slices = {}, .weights = std::vector<double>(servers.size(), 1), .allowed = {}};
    for (int i = 0; i < 40; ++i)
      balance.slices.push_back({static_cast<uint32_t>(rng.Below(servers.size())), {}, 1.0 / 40});
    for (int round = 0; round < 3; ++round) {
      balance.allowed = topology::ReplicaServers(servers, balance.weights);
      for (const auto& change : PlanReplicaChanges(balance)) balance.slices[change.slice].replica = change.to;
      EXPECT_THAT(PlanReplicaChanges(balance), ::testing::IsEmpty()) << "seed " << seed;
      for (const auto& slice : balance.slices) {
        bool apart = false;
        for (size_t s = 0; s < servers.size(); ++s)
          apart |= balance.weights[s] > 0 && topology::OtherZoneOfSite(servers[slice.server], servers[s]);
        if (slice.replica) {
          EXPECT_TRUE(topology::SameSite(servers[slice.server], servers[*slice.replica])) << "seed " << seed;
        }
        if (!apart) continue;
        ASSERT_TRUE(slice.replica) << "seed " << seed;
        EXPECT_TRUE(topology::OtherZoneOfSite(servers[slice.server], servers[*slice.replica]))
            << "seed " << seed;
      }
      balance.weights[rng.Below(servers.size())] = 0;
    }
  }
}

}  // namespace
}  // namespace leat::protocol
