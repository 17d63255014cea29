#include "protocol/slices/rebalance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/rng.h"

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
    for (double load : loads[server]) balance.slices.push_back({server, load / sum});
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

}  // namespace
}  // namespace leat::protocol
