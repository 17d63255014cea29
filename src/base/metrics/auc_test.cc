#include "base/metrics/auc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/rng.h"

namespace leat::metrics {
namespace {

using Scored = std::vector<std::pair<float, bool>>;

// AUC by ranks; ties get their average rank (Mann and Whitney 1947).
double ExactAuc(Scored scored) {
  std::ranges::sort(scored);
  double ranks = 0, positives = 0;
  for (size_t i = 0; i < scored.size();) {
    size_t end = i;
    while (end < scored.size() && scored[end].first == scored[i].first) ++end;
    for (size_t k = i; k < end; ++k) {
      if (!scored[k].second) continue;
      ranks += static_cast<double>(i + 1 + end) / 2;
      positives += 1;
    }
    i = end;
  }
  const double negatives = static_cast<double>(scored.size()) - positives;
  return (ranks - positives * (positives + 1) / 2) / (positives * negatives);
}

// Scores of a rare event: most probabilities are far below one percent.
Scored RareEvents(uint64_t seed, size_t n, double shift, double spread) {
  Rng rng(seed);
  Scored scored;
  for (size_t i = 0; i < n; ++i) {
    const double p = 1 / (1 + std::exp(-(shift + spread * rng.Normal())));
    scored.emplace_back(static_cast<float>(p), rng.Chance(p));
  }
  return scored;
}

AucCounts Count(const Scored& scored) {
  AucCounts counts;
  for (const auto& [score, positive] : scored) counts.Add(score, positive);
  return counts;
}

TEST(AucCounts, BinsNeverGoDown) {
  Rng rng(1);
  for (int i = 0; i < 100000; ++i) {
    float a = static_cast<float>(1 / (1 + std::exp(12 * rng.Normal()))), b = std::nextafter(a, 2.0f);
    ASSERT_LE(AucCounts::Bin(a), AucCounts::Bin(b)) << a;
    ASSERT_LT(AucCounts::Bin(a), AucCounts::kBins);
  }
  EXPECT_EQ(AucCounts::Bin(0.0f), 0u);
  EXPECT_EQ(AucCounts::Bin(-1.0f), 0u);
  EXPECT_EQ(AucCounts::Bin(std::nanf("")), 0u);
  EXPECT_EQ(AucCounts::Bin(1.0f), AucCounts::kBins - 1);
  EXPECT_EQ(AucCounts::Bin(2.0f), AucCounts::kBins - 1);
  EXPECT_LT(AucCounts::Bin(std::nextafter(0.5f, 0.0f)), AucCounts::Bin(0.5f));
  EXPECT_LT(AucCounts::Bin(0.5f), AucCounts::Bin(0.51f));
}

TEST(AucCounts, IsNearTheExactAuc) {
  for (auto [shift, spread] : {std::pair{0.0, 1.0}, {-4.0, 2.0}, {-7.0, 2.5}, {5.0, 3.0}}) {
    const auto scored = RareEvents(7, 50000, shift, spread);
    EXPECT_NEAR(Count(scored).Auc(), ExactAuc(scored), 2e-4) << shift;
  }
}

TEST(AucCounts, EndsAndTies) {
  const auto auc = [](const Scored& s) { return Count(s).Auc(); };
  EXPECT_EQ(auc({{0.1f, false}, {0.9f, true}}), 1.0);
  EXPECT_EQ(auc({{0.1f, true}, {0.9f, false}}), 0.0);
  EXPECT_EQ(auc({{0.3f, true}, {0.3f, false}, {0.3f, false}}), 0.5);
  EXPECT_TRUE(std::isnan(auc({{0.3f, true}})));
  EXPECT_TRUE(std::isnan(auc({{0.3f, false}})));
  EXPECT_TRUE(std::isnan(auc({})));
}

TEST(AucCounts, PartsMergeAndWindowsSubtract) {
  const auto first = RareEvents(1, 1000, -2, 1), second = RareEvents(2, 3000, -1, 2);
  Scored both = first;
  both.insert(both.end(), second.begin(), second.end());
  auto counts = Count(first);
  counts.Merge(Count(second));
  EXPECT_EQ(counts, Count(both));
  EXPECT_EQ(counts.positives() + counts.negatives(), 4000u);
  counts.Subtract(Count(first));
  EXPECT_EQ(counts, Count(second));
}

TEST(AucCounts, ComeBackFromBytes) {
  const auto counts = Count(RareEvents(3, 20000, -3, 2));
  const Bytes bytes = counts.Encode();
  EXPECT_LT(bytes.size(), 8000u);
  EXPECT_EQ(*AucCounts::Decode(bytes), counts);
  EXPECT_EQ(*AucCounts::Decode({}), AucCounts());
  EXPECT_FALSE(AucCounts::Decode(ByteView(bytes).first(bytes.size() - 1)).ok());
  EXPECT_FALSE(AucCounts::Decode(AsBytes("\xff\x7f\x01\x01")).ok()) << "a bin after the last";
  EXPECT_FALSE(AucCounts::Decode(Bytes(32, std::byte{0xff})).ok());
}

TEST(AucCounts, AnyBytesAreSafeToDecode) {
  Rng rng(5);
  for (int round = 0; round < 2000; ++round) {
    Bytes bytes(rng.Below(64));
    for (auto& b : bytes) b = static_cast<std::byte>(rng());
    const auto counts = AucCounts::Decode(bytes);
    if (!counts.ok()) continue;
    EXPECT_EQ(*AucCounts::Decode(counts->Encode()), *counts);
  }
}

}  // namespace
}  // namespace leat::metrics
