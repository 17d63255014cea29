#include "compute/nn/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "compute/nn/testing.h"
#include "compute/optim/moments.h"

namespace leat::nn {
namespace {

constexpr uint32_t kBatch = 16, kFeatures = 4;
const char* const kModel =
    "{layers: [dense: {units: 5, activation: tanh}, dense: {units: 1}], loss: squared_error}";

// Features 1 and 3 have a running scale.
Model Scaled(const std::string& yaml = kModel) {
  return Model::FromConfig(Config::Parse(yaml, "job.yaml"), {.features = kFeatures, .running = {1, 3}});
}
Model Plain() {
  return Model::FromConfig(Config::Parse(kModel, "job.yaml"), {.features = kFeatures});
}

std::vector<float> Features(uint64_t seed) {
  Rng rng(seed);
  std::vector<float> features(kBatch * kFeatures);
  for (size_t i = 0; i < features.size(); ++i) {
    features[i] = static_cast<float>(i % kFeatures == 1   ? 1e5 + 300 * rng.Normal()
                                     : i % kFeatures == 3 ? 1e-4 * rng.Normal() - 1e-4
                                                          : rng.Normal());
  }
  return features;
}

optim::Moments MomentsOf(const std::vector<float>& features, size_t column,
                         const std::vector<float>& weights) {
  long double sum = 0, squares = 0;
  uint64_t count = 0;
  for (size_t row = 0; row < kBatch; ++row) {
    if (!(weights[row] > 0)) continue;
    sum += features[row * kFeatures + column];
    ++count;
  }
  const long double mean = sum / static_cast<long double>(count);
  for (size_t row = 0; row < kBatch; ++row) {
    if (!(weights[row] > 0)) continue;
    const long double deviation = features[row * kFeatures + column] - mean;
    squares += deviation * deviation;
  }
  return {count, static_cast<double>(mean), static_cast<double>(squares)};
}

void ExpectNear(const optim::Moments& found, const optim::Moments& expected) {
  EXPECT_EQ(found.count, expected.count);
  EXPECT_NEAR(found.mean, expected.mean, 1e-12 * std::abs(expected.mean));
  EXPECT_NEAR(found.m2, expected.m2, 1e-11 * expected.m2);
}

// The features as a schema with known statistics would have them.
std::vector<float> Normalised(std::vector<float> features, const optim::Moments (&by)[2]) {
  for (size_t i = 0; i < features.size(); ++i) {
    if (i % 2 == 0) continue;
    const optim::Moments& m = by[i % kFeatures / 2];
    const double deviation = std::sqrt(m.m2 / static_cast<double>(m.count));
    features[i] = static_cast<float>((static_cast<double>(features[i]) - m.mean) / deviation);
  }
  return features;
}

// A step of a model with a running scale is that of one without on the normalised features, and pushes the
// moments of its batch besides.
void ExpectStep(ModelStep& scaled, const std::vector<float>& features, const optim::Moments (&by)[2]) {
  ModelStep plain(Plain(), kBatch);
  scaled.features = features;
  std::ranges::copy(Normalised(features, by), plain.features.begin());  // the plan is bound to this memory
  scaled.weights[5] = plain.weights[5] = 0;
  scaled.features[5 * kFeatures + 1] = plain.features[5 * kFeatures + 1] = 1e7f;  // a feature of padding
  for (size_t i = 0; i < kBatch; ++i) scaled.labels[i] = plain.labels[i] = static_cast<float>(i % 3);
  scaled.Run();
  plain.Run();
  EXPECT_NEAR(scaled.loss(), plain.loss(), 1e-4);
  for (const char* name : {"dense1/weight", "dense1/bias", "dense2/weight", "dense2/bias"}) {
    const auto found = scaled.gradient(name), expected = plain.gradient(name);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4) << name << " " << i;
  }
  const auto pushed = scaled.gradient("moments");
  ExpectNear(optim::GetMoments(pushed, 0), MomentsOf(features, 1, scaled.weights));
  ExpectNear(optim::GetMoments(pushed, 1), MomentsOf(features, 3, scaled.weights));
}

TEST(RunningScale, ABatchIsNormalisedByThePulledMomentsAndTheFirstByItsOwn) {
  const Model model = Scaled();
  ASSERT_EQ(model.variables().size(), 5u);
  EXPECT_EQ(model.variables()[0].role, optim::VariableRole::kMoments);
  EXPECT_EQ(model.parameters(), Plain().parameters());
  ModelStep step(model, kBatch);
  const auto first = Features(1), second = Features(2);
  std::vector<float> weights(kBatch, 1);
  weights[5] = 0;
  const optim::Moments own[2] = {MomentsOf(first, 1, weights), MomentsOf(first, 3, weights)};
  ExpectStep(step, first, own);

  const optim::Moments pulled[2] = {{1000, 9e4, 1e11}, {7, 2e-5, 1e-9}};
  for (size_t i = 0; i < 2; ++i) optim::PutMoments(step.parameter("moments"), i, pulled[i]);
  ExpectStep(step, second, pulled);
}

TEST(RunningScale, WithoutADeviationAFeatureIsZero) {
  const Model model = Model::FromConfig(Config::Parse("{layers: [flatten], loss: negative_sum}", "job.yaml"),
                                        {.features = 2, .running = {0, 1}});
  ModelStep step(model, 3, /*training=*/false);
  step.features = {5, 1, 7, 1, 9, 1};
  step.Run();
  EXPECT_THAT(step.scores(), ::testing::ElementsAre(::testing::FloatNear(-1.224745f, 1e-6f), 0, 0, 0,
                                                    ::testing::FloatNear(1.224745f, 1e-6f), 0))
      << "by its own moments, and a constant is 0";
  optim::PutMoments(step.parameter("moments"), 0, {1, 7, 0});
  optim::PutMoments(step.parameter("moments"), 1, {4, 3, 4});
  step.Run();
  EXPECT_THAT(step.scores(), ::testing::ElementsAre(0, -2, 0, -2, 0, -2));
}

TEST(RunningScale, ScoringDoesNotDifferFromTraining) {
  EXPECT_FALSE(Scaled().differs_in_training());
}

TEST(RunningScale, KeepsTheShapeOfARow) {
  const Model model = Model::FromConfig(
      Config::Parse("{inputs: [2, 2], layers: [dense: {units: 3}, flatten], loss: negative_sum}", "job.yaml"),
      {.features = 4, .running = {1, 2}});
  ModelStep step(model, 2);
  step.features = {1, 10, -4, 1, 2, 20, -2, 1};
  step.Run();
  const auto pushed = step.gradient("moments");
  EXPECT_EQ(optim::GetMoments(pushed, 0), (optim::Moments{2, 15, 50}));
  EXPECT_EQ(optim::GetMoments(pushed, 1), (optim::Moments{2, -3, 2}));
}

}  // namespace
}  // namespace leat::nn
