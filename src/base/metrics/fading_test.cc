#include "base/metrics/auc.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "base/rng.h"

namespace leat::metrics {
namespace {

constexpr double kFactor = 0.99;

// Σ factor^(events after it) · value / Σ factor^(events after it), directly.
double Faded(const std::vector<double>& values) {
  double sum = 0, weights = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double weight = std::pow(kFactor, static_cast<double>(values.size() - 1 - i));
    sum += weight * values[i];
    weights += weight;
  }
  return sum / weights;
}

TEST(FadingScores, AreNoNumbersBeforeTheFirstEvent) {
  FadingScores scores(kFactor);
  scores.Add({});
  EXPECT_TRUE(std::isnan(scores.loss()));
  EXPECT_TRUE(std::isnan(scores.correct()));
  EXPECT_TRUE(std::isnan(scores.absolute_error()));
}

TEST(FadingScores, AreExactForBatchesOfOneEvent) {
  FadingScores scores(kFactor);
  Rng rng(1);
  std::vector<double> loss, correct, error;
  for (int i = 0; i < 1000; ++i) {
    loss.push_back(rng.Normal());
    correct.push_back(rng.Chance(0.8) ? 1 : 0);
    error.push_back(std::abs(rng.Normal()));
    scores.Add({.events = 1, .loss = loss.back(), .correct = correct.back(), .absolute_error = error.back()});
    ASSERT_NEAR(scores.loss(), Faded(loss), 1e-9) << i;
  }
  EXPECT_NEAR(scores.correct(), Faded(correct), 1e-9);
  EXPECT_NEAR(scores.absolute_error(), Faded(error), 1e-9);
}

TEST(FadingScores, GiveTheEventsOfABatchItsMean) {
  FadingScores scores(kFactor);
  Rng rng(2);
  std::vector<double> loss;
  for (int i = 0; i < 200; ++i) {
    const uint64_t events = 1 + rng.Below(20);
    const double mean = rng.Normal();
    loss.insert(loss.end(), events, mean);
    scores.Add({.events = events, .loss = mean * static_cast<double>(events)});
  }
  EXPECT_NEAR(scores.loss(), Faded(loss), 1e-9);
}

TEST(FadingAuc, IsThatOfWeightedPairs) {
  FadingAuc auc(kFactor);
  EXPECT_TRUE(std::isnan(auc.Auc()));
  AucCounts counts;
  std::vector<std::pair<float, bool>> scored;
  Rng rng(3);
  for (int i = 0; i < 400; ++i) {
    const bool positive = rng.Chance(0.3);
    // On a grid, so that no two different scores share a bin. The model gets worse.
    const float score = static_cast<float>(rng.Below(64) + (positive && i < 200 ? 32 : 0)) / 128.0f;
    scored.emplace_back(score, positive);
    const AucCounts earlier = counts;
    counts.Add(score, positive);
    auc.Add(earlier, counts);
  }
  double won = 0, pairs = 0;
  for (size_t i = 0; i < scored.size(); ++i) {
    for (size_t k = 0; k < scored.size(); ++k) {
      if (!scored[i].second || scored[k].second) continue;
      const double weight = std::pow(kFactor, static_cast<double>(2 * scored.size() - 2 - i - k));
      pairs += weight;
      won += weight * (scored[i].first > scored[k].first ? 1 : scored[i].first == scored[k].first ? 0.5 : 0);
    }
  }
  EXPECT_NEAR(auc.Auc(), won / pairs, 1e-9);
  EXPECT_LT(auc.Auc(), counts.Auc() - 0.05) << "the worse end counts more";
}

TEST(FadingAuc, IgnoresCountsThatGoBack) {
  FadingAuc auc(kFactor);
  AucCounts one, two;
  one.Add(0.9f, true);
  one.Add(0.1f, false);
  auc.Add(AucCounts(), one);
  EXPECT_EQ(auc.Auc(), 1);
  auc.Add(one, two);
  two.Add(0.5f, true);
  two.Add(0.5f, true);
  two.Add(0.5f, true);
  auc.Add(one, two);
  EXPECT_EQ(auc.Auc(), 1);
}

}  // namespace
}  // namespace leat::metrics
