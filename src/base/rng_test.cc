#include "base/rng.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

namespace leat {
namespace {

// Reference values from the published generators; for seeded values, from an independent implementation.
TEST(Rng, KnownAnswers) {
  EXPECT_EQ(Mix(0), 0xe220a8397b1dcdafull);
  EXPECT_EQ(Mix(0x9e3779b97f4a7c15ull), 0x6e789e6aa1b965f4ull);
  EXPECT_EQ(HashName(""), 0xcbf29ce484222325ull);
  EXPECT_EQ(HashName("a"), 0xaf63dc4c8601ec8cull);
  EXPECT_EQ(HashName("foobar"), 0x85944171f73967e8ull);
  Rng rng(42);
  EXPECT_EQ(rng(), 0xc757960b442b0ac3ull);
  EXPECT_EQ(rng(), 0x4bb22a7f77ff8c6cull);
  EXPECT_EQ(rng(), 0x04950439d3c5eafeull);
  EXPECT_EQ(rng(), 0xb769fb44902f2dc2ull);
  constexpr CounterRng counter(7);
  EXPECT_EQ(counter.Bits(0), 0x50858203873ed679ull);
  EXPECT_EQ(counter.Bits(1), 0x34cac5489fdc078aull);
  EXPECT_EQ(counter.Bits(uint64_t{1} << 40), 0xaf8d55d03551109dull);
  std::array<int, 8> order{};
  Permutation(std::span<int>(order), 5);
  EXPECT_THAT(order, ::testing::ElementsAre(5, 3, 1, 0, 4, 7, 6, 2));
}

// Chi squared over 100 cells: 99 ± 14.1 (one sigma); the seeds are fixed, so the test is as well.
template <class Draw>
double ChiSquared(Draw draw) {
  constexpr int kCells = 100, kDraws = 200000;
  std::array<double, kCells> count{};
  for (int i = 0; i < kDraws; ++i) count[static_cast<size_t>(draw(i) * kCells)] += 1;
  double sum = 0;
  for (double n : count) sum += (n - kDraws / kCells) * (n - kDraws / kCells) / (kDraws / kCells);
  return sum;
}

TEST(Rng, UniformIsUniform) {
  Rng rng(1);
  EXPECT_LT(ChiSquared([&](int) { return rng.Uniform(); }), 160);
  EXPECT_LT(ChiSquared([&](int) { return (static_cast<double>(rng.Below(100)) + 0.5) / 100; }), 160);
  for (uint64_t key : {0, 1, 2}) {
    const CounterRng counter(key);
    EXPECT_LT(ChiSquared([&](int i) { return counter.Uniform(static_cast<uint64_t>(i)); }), 160) << key;
  }
}

// Neighbouring keys and counters must be uncorrelated, or two variables would start from similar values.
TEST(Rng, CountersOfNeighbouringKeysAreUnrelated) {
  double product = 0;
  constexpr int kDraws = 100000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    product += (CounterRng(i % 7).Uniform(i) - 0.5) * (CounterRng(i % 7 + 1).Uniform(i) - 0.5);
  }
  EXPECT_NEAR(product / kDraws * 12, 0, 0.015) << "correlation; one sigma is 0.003";
}

template <class Draw>
void ExpectStandardNormal(Draw draw) {
  constexpr int kDraws = 200000;
  double sum = 0, squares = 0, fourth = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = draw(i);
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.01);
  EXPECT_NEAR(squares / kDraws, 1, 0.015);
  EXPECT_NEAR(fourth / kDraws, 3, 0.15);
}

TEST(Rng, NormalHasItsMoments) {
  Rng rng(3);
  ExpectStandardNormal([&](int) { return rng.Normal(); });
  const CounterRng counter(3);
  ExpectStandardNormal([&](int i) { return counter.Normal(static_cast<uint64_t>(i)); });
}

TEST(Rng, ExponentialHasItsMean) {
  Rng rng(4);
  double sum = 0;
  for (int i = 0; i < 100000; ++i) sum += rng.Exponential(2.5);
  EXPECT_NEAR(sum / 100000, 2.5, 0.03);
}

TEST(Rng, PermutationHoldsEveryPlaceOnce) {
  std::vector<uint32_t> order(1000);
  Permutation(std::span<uint32_t>(order), 9);
  EXPECT_FALSE(std::ranges::is_sorted(order));
  EXPECT_EQ(std::set<uint32_t>(order.begin(), order.end()).size(), order.size());
  EXPECT_EQ(*std::ranges::max_element(order), 999u);
  std::vector<uint32_t> none;
  Permutation(std::span<uint32_t>(none), 9);
}

// All 24 orders of 4 are equally frequent.
TEST(Rng, PermutationIsFair) {
  std::array<int, 256> count{};
  for (uint64_t seed = 0; seed < 24000; ++seed) {
    std::array<uint8_t, 4> order{};
    Permutation(std::span<uint8_t>(order), seed);
    ++count[order[0] | order[1] << 2 | order[2] << 4 | order[3] << 6];
  }
  double chi = 0;
  int orders = 0;
  for (int n : count) {
    if (n > 0) ++orders, chi += (n - 1000.0) * (n - 1000.0) / 1000.0;
  }
  EXPECT_EQ(orders, 24);
  EXPECT_LT(chi, 50) << "23 degrees of freedom";
}

}  // namespace
}  // namespace leat
