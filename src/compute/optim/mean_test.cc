#include "compute/optim/mean.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace leat::optim {
namespace {

// The formula in f32: each product and each sum is rounded once, in the order of the lanes.
TEST(Mean, IsTheChainInTheOrderOfLanes) {
  Rng rng(1);
  for (const size_t n : {1u, 7u, 64u, 1003u}) {
    std::vector<std::vector<float>> lanes(5, std::vector<float>(n));
    const std::vector<uint32_t> events = {3, 128, 1, 77, 128};
    for (auto& lane : lanes) {
      for (float& x : lane) x = static_cast<float>(rng.Uniform()) - 0.5f;
    }
    const MeanRule rule{.full = 128};
    std::vector<float> sum(n);
    for (size_t l = 0; l < lanes.size(); ++l) {
      (l == 0 ? SetWeighted : AddWeighted)(sum, lanes[l], rule.weight(events[l]));
    }
    Scale(sum, rule.scale(337));
    for (size_t i = 0; i < n; ++i) {
      volatile float expected = lanes[0][i] * (3.0f / 128.0f);
      for (size_t l = 1; l < lanes.size(); ++l) {
        const volatile float product = lanes[l][i] * (static_cast<float>(events[l]) / 128.0f);
        expected = expected + product;
      }
      expected = expected * static_cast<float>(128.0 / 337);
      ASSERT_EQ(sum[i], expected) << n << " elements, at " << i;
    }
  }
}

TEST(Mean, TermsAreAddedInTheirOrderAndWeighedOnce) {
  Rng rng(2);
  constexpr size_t kAll = 300;
  std::vector<std::vector<float>> all(4, std::vector<float>(kAll));
  for (auto& term : all) {
    for (float& x : term) x = static_cast<float>(rng.Uniform()) - 0.5f;
  }
  for (size_t count = 1; count <= all.size(); ++count) {
    const std::vector<std::span<const float>> terms(all.begin(), all.begin() + static_cast<ptrdiff_t>(count));
    for (const float weight : {1.0f, 0.3f}) {
      for (const auto& [begin, n] : {std::pair<size_t, size_t>(0, kAll), {1, 77}, {kAll - 3, 3}, {kAll, 0}}) {
        std::vector<float> sum(n, 7);
        SetSum(sum, terms, begin, weight);
        for (size_t i = 0; i < n; ++i) {
          volatile float expected = all[0][begin + i];
          for (size_t t = 1; t < count; ++t) expected = expected + all[t][begin + i];
          expected = expected * weight;
          ASSERT_EQ(sum[i], expected) << count << " terms, at " << i;
        }
      }
    }
  }
}

TEST(Mean, SumsAreSumsButForStatistics) {
  const MeanRule gradients = MeanRuleFor(true, 1, VariableRole::kTrained);
  EXPECT_EQ(gradients.weight(7), 1.0f);
  EXPECT_EQ(gradients.scale(7), 1.0f);
  for (const MeanRule rule :
       {MeanRuleFor(true, 8, VariableRole::kStatistic), MeanRuleFor(false, 8, VariableRole::kTrained)}) {
    EXPECT_EQ(rule.weight(8), 1.0f);
    EXPECT_EQ(rule.weight(7), 0.875f);
    EXPECT_EQ(rule.scale(16), 0.5f);
  }
}

}  // namespace
}  // namespace leat::optim
