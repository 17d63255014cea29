#include "protocol/slices/rebalance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/rng.h"
#include "protocol/topology/topology_settings.h"

namespace leat::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Slices of these loads by server, as parts of their sum.
Balance BalanceOf(const std::vector<std::vector<double>>& loads, std::vector<double> weights) {
  Balance balance;
  double sum = 0;
  for (const auto& server : loads) sum += std::accumulate(server.begin(), server.end(), 0.0);
  for (uint32_t server = 0; server < loads.size(); ++server) {
    for (double load : loads[server]) balance.slices.push_back({server, {}, load / sum});
  }
  balance.weights = std::move(weights);
  return balance;
}

void Apply(const std::vector<SliceMove>& moves, Balance* balance) {
  for (const SliceMove& move : moves) {
    EXPECT_EQ(balance->slices[move.slice].server, move.from);
    balance->slices[move.slice].server = move.to;
  }
}

double LoadOf(const Balance& balance, uint32_t server) {
  double load = 0;
  for (const auto& slice : balance.slices) load += slice.server == server ? slice.load : 0;
  return load;
}

double Moved(const Balance& balance, const std::vector<SliceMove>& moves) {
  double moved = 0;
  for (const SliceMove& move : moves) moved += balance.slices[move.slice].load;
  return moved;
}

TEST(RebalanceTest, AServerThatJoinsGetsItsShareAndNothingElseMoves) {
  Balance balance = BalanceOf({{1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}, {}}, {1, 1, 1});
  EXPECT_TRUE(OutOfBalance(balance));
  const auto moves = PlanMoves(balance, true);
  ASSERT_EQ(moves.size(), 4u) << "a third of 12";
  for (const SliceMove& move : moves) EXPECT_EQ(move.to, 2u);
  Apply(moves, &balance);
  for (uint32_t server = 0; server < 3; ++server) EXPECT_NEAR(LoadOf(balance, server), 1.0 / 3, 1e-9);
  EXPECT_FALSE(OutOfBalance(balance));
}

TEST(RebalanceTest, AServerThatLeavesGivesAllAwayAndNothingElseMoves) {
  Balance balance = BalanceOf({{5, 1}, {3, 3}, {4, 2}}, {1, 0, 1});
  const auto moves = PlanMoves(balance, false);
  EXPECT_THAT(moves, ElementsAre(SliceMove{2, 1, 0}, SliceMove{3, 1, 2}));
  Apply(moves, &balance);
  EXPECT_EQ(LoadOf(balance, 1), 0);
}

TEST(RebalanceTest, WithoutAServerThatTakesThemSlicesStay) {
  EXPECT_THAT(PlanMoves(BalanceOf({{1, 1}, {1}}, {0, 0}), true), IsEmpty());
}

TEST(RebalanceTest, WeightsAreShares) {
  Balance balance = BalanceOf({std::vector<double>(12, 1), {}}, {1, 2});
  Apply(PlanMoves(balance, true), &balance);
  EXPECT_NEAR(LoadOf(balance, 1), 2.0 / 3, 1e-9);
}

TEST(RebalanceTest, SmallDifferencesAreLeftAlone) {
  EXPECT_FALSE(OutOfBalance(BalanceOf({{5}, {4}, {5}}, {1, 1, 1})));
  EXPECT_TRUE(OutOfBalance(BalanceOf({{7}, {4}, {5}}, {1, 1, 1})));
}

TEST(RebalanceTest, ASliceThatIsTooLargeForTheDifferenceMovesOnlyIfThatHelps) {
  EXPECT_THAT(PlanMoves(BalanceOf({{1}, {}}, {1, 1}), true), IsEmpty())
      << "it would be as uneven the other way";
  EXPECT_EQ(PlanMoves(BalanceOf({{1, 1, 1}, {}}, {1, 1}), true).size(), 1u);
  // 15 and 6: after a move of 5 the larger one has 11.
  EXPECT_EQ(PlanMoves(BalanceOf({{5, 5, 5}, {6}}, {1, 1}), true).size(), 1u);
}

TEST(RebalanceTest, PlansAreFixedPointsAndMoveNoMoreThanIsOutOfPlace) {
  Rng rng(1);
  for (int round = 0; round < 500; ++round) {
    const auto servers = static_cast<uint32_t>(1 + rng.Below(9));
    std::vector<std::vector<double>> loads(servers);
    std::vector<double> weights;
    double largest = 0, sum = 0;
    for (auto& server : loads) {
      weights.push_back(rng.Chance(0.2) ? 0 : 1);
      const uint64_t slices = rng.Chance(0.2) ? 0 : rng.Below(20);
      for (uint64_t i = 0; i < slices; ++i) {
        server.push_back(0.1 + rng.Exponential(1));
        largest = std::max(largest, server.back());
        sum += server.back();
      }
    }
    if (sum == 0) continue;
    Balance balance = BalanceOf(loads, weights);
    const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
    double out_of_place = 0;
    for (uint32_t server = 0; server < servers; ++server)
      out_of_place += std::max(0.0, LoadOf(balance, server) - (all > 0 ? weights[server] / all : 0));
    const auto moves = PlanMoves(balance, true);
    const double moved = Moved(balance, moves);
    std::set<uint32_t> slices;
    for (const SliceMove& move : moves) EXPECT_TRUE(slices.insert(move.slice).second) << "one moves twice";
    Apply(moves, &balance);
    if (all == 0) {
      EXPECT_THAT(moves, IsEmpty());
      continue;
    }
    EXPECT_LE(moved, out_of_place + servers * largest / sum + 1e-9);
    for (uint32_t server = 0; server < servers; ++server) {
      EXPECT_TRUE(weights[server] > 0 || LoadOf(balance, server) == 0);
    }
    EXPECT_THAT(PlanMoves(balance, true), IsEmpty()) << "round " << round;
  }
}

TEST(RebalanceTest, LoadsAreBytesAndTraffic) {
  EXPECT_THAT(SliceLoads({1, 3}, {}), ElementsAre(0.25, 0.75));
  EXPECT_THAT(SliceLoads({1, 3}, {3, 1}), ElementsAre(0.5, 0.5));
  EXPECT_THAT(SliceLoads({1, 3}, {0, 0}), ElementsAre(0.25, 0.75)) << "nothing is trained";
}

// ---- replicas

Balance After(Balance balance) {
  for (const ReplicaChange& change : PlanReplicaChanges(balance))
    balance.slices[change.slice].replica = change.to;
  return balance;
}

TEST(ReplicaPlan, OneServerHasNone) {
  EXPECT_THAT(PlanReplicaChanges({.slices = {{0, {}, 0.5}, {0, {}, 0.5}}, .weights = {1}}), IsEmpty());
}

TEST(ReplicaPlan, TwoServersHaveEachOthers) {
  const Balance balance{.slices = {{0, {}, 0.5}, {1, {}, 0.5}}, .weights = {1, 1}};
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
    Balance balance;
    const uint32_t servers = 2 + static_cast<uint32_t>(rng.Below(5));
    for (uint32_t server = 0; server < servers; ++server)
      balance.weights.push_back(server >= 2 && rng.Chance(0.2) ? 0 : 1);
    const uint32_t slices = 12 * servers;
    for (uint32_t i = 0; i < slices; ++i) {
      uint32_t server = i % servers;
      if (balance.weights[server] <= 0) server = 0;
      Balance::Slice slice{server, {}, 1.0 / slices};
      if (rng.Chance(0.5))
        slice.replica = (server + 1 + static_cast<uint32_t>(rng.Below(servers - 1))) % servers;
      balance.slices.push_back(slice);
    }
    const Balance after = After(balance);
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
    Balance balance{.slices = {}, .weights = std::vector<double>(servers.size(), 1), .allowed = {}};
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

// ---- traffic

using std::chrono::seconds;

const NodeId kSource(1), kTarget(2);

TEST(TrafficMeterTest, MeasuresBetweenTwoReportsOfAServer) {
  TrafficMeter meter(2);
  meter.OnReport(seconds(1), kSource, {{SliceId(0), 0, 1000}, {SliceId(1), 0, 0}});
  EXPECT_THAT(meter.Rates(), IsEmpty());
  meter.OnReport(seconds(3), kSource, {{SliceId(0), 0, 3000}});
  EXPECT_THAT(meter.Rates(), IsEmpty()) << "one slice is unknown";
  meter.OnReport(seconds(3), kSource, {{SliceId(1), 10, 0}});
  ASSERT_EQ(meter.Rates().size(), 2u);
  EXPECT_EQ(meter.Rates()[0], 1000);
  EXPECT_GT(meter.Rates()[1], 0) << "requests without bytes are work, too";
}

TEST(TrafficMeterTest, ASliceThatMovesKeepsItsRate) {
  TrafficMeter meter(1);
  meter.OnReport(seconds(1), kSource, {{SliceId(0), 0, 0}});
  meter.OnReport(seconds(2), kSource, {{SliceId(0), 0, 500}});
  meter.OnReport(seconds(3), kTarget, {{SliceId(0), 0, 100'000}});
  EXPECT_EQ(meter.Rates()[0], 500) << "another server counts from zero";
  meter.OnReport(seconds(4), kTarget, {{SliceId(0), 0, 50}});
  EXPECT_EQ(meter.Rates()[0], 500) << "it was there before";
  meter.OnReport(seconds(5), kTarget, {{SliceId(0), 0, 150}});
  EXPECT_LT(meter.Rates()[0], 500);
  EXPECT_GT(meter.Rates()[0], 100) << "a mean of the last reports";
}

TEST(TrafficMeterTest, UnknownSlicesAreIgnored) {
  TrafficMeter meter(1);
  meter.OnReport(seconds(1), kSource, {{SliceId(1), 0, 0}, {SliceId(77), 0, 0}});
  EXPECT_THAT(meter.Rates(), IsEmpty());
}

}  // namespace
}  // namespace leat::protocol
