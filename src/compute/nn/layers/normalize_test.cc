// Models with normalisation, dropout, attention and residual layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/rng.h"
#include "compute/nn/testing.h"

namespace leat::nn {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

Model MakeNormalized(const std::string& yaml) {
  return Model::FromConfig(Config::Parse(yaml, "job.yaml"), {});
}

// A batch of random features, and labels of two classes.
class NormalizeRunner : public ModelStep {
 public:
  NormalizeRunner(const Model& model, uint32_t batch, bool training = true)
      : ModelStep(model, batch, training) {
    Rng rng(7);
    for (auto& x : features) x = static_cast<float>(rng.Normal());
    for (auto& y : labels) y = static_cast<float>(rng.Below(2));
  }
};

constexpr char kHead[] = ", flatten, dense: {units: 2}], loss: softmax_cross_entropy}";

const std::string kBatchNorm =
    "{inputs: [3, 2], layers: [dense: {units: 4}, batch_norm: {momentum: 0.75, epsilon: 0.01}, tanh" +
    std::string(kHead);
const std::string kBlock =
    "{inputs: [4, 6], layers: [position, residual: {layers: [layer_norm, attention: {heads: 2, causal: "
    "true}]}, "
    "residual: {layers: [layer_norm, dense: {units: 8, activation: gelu}, gelu: {approximate: true}, "
    "dropout: {rate: 0.5}, dense: {units: 6}]}" +
    std::string(kHead);

TEST(NormalizeLayers, GradientsAreTheSlopesOfTheLoss) {
  for (const auto& yaml : {kBatchNorm, kBlock}) {
    const auto model = MakeNormalized(yaml);
    NormalizeRunner run(model, 6);
    run.weights = {1, 1, 0.5f, 0, 1, 2};
    for (size_t v = 0; v < model.variables().size(); ++v) {
      if (model.variables()[v].role != optim::VariableRole::kTrained) continue;
      run.Run();  // with unchanged parameters
      const auto gradient = run.gradient(v);
      for (size_t i = 0; i < gradient.size(); ++i) {
        float& at = run.parameters[v][i];
        const float before = at;
        const auto difference = [&](float step) {
          at = before + step;
          run.Run();
          const float above = run.loss();
          at = before - step;
          run.Run();
          at = before;
          return (above - run.loss()) / (2 * step);
        };
        // Richardson: the errors in step² cancel.
        const float slope = (4 * difference(1e-2f) - difference(2e-2f)) / 3;
        ASSERT_NEAR(gradient[i], slope, 2e-3 + 2e-3 * std::abs(slope))
            << yaml << " " << model.variables()[v].name << " " << i;
      }
    }
  }
}

// Training computes with the running values as scoring does, and nothing moves them.
TEST(NormalizeLayers, AFrozenBatchNormUsesItsRunningValues) {
  const auto model =
      MakeNormalized("{inputs: [3, 2], layers: [dense: {units: 4}, batch_norm: {trainable: false}, tanh" +
                     std::string(kHead));
  for (const auto& variable : model.variables())
    EXPECT_EQ(variable.role, optim::VariableRole::kTrained) << variable.name;
  EXPECT_EQ(model.frozen().size(), 4u);
  NormalizeRunner training(model, 6), scoring(model, 6, false);
  training.Run();
  scoring.Run();
  EXPECT_EQ(training.scores(), scoring.scores());
  EXPECT_FALSE(model.differs_in_training());
}

// Rows of weight 0 do not affect any bit of the results, which equal those of the short batch, including
// batch statistics and updates of the running ones.
TEST(NormalizeLayers, RowsOfWeightZeroAddExactlyNothing) {
  std::string kept = kBlock;
  kept.replace(kept.find("0.5"), 3, "0.0");  // dropout differs between batch sizes
  for (const auto& yaml : {kBatchNorm, kept}) {
    const auto model = MakeNormalized(yaml);
    NormalizeRunner padded(model, 8), other(model, 8), exact(model, 5);
    const size_t used = exact.features.size();
    for (NormalizeRunner* run : {&padded, &other}) {
      std::ranges::copy(exact.features, run->features.begin());
      std::ranges::copy(exact.labels, run->labels.begin());
      std::fill(run->weights.begin() + 5, run->weights.end(), 0.0f);
    }
    std::fill(padded.features.begin() + static_cast<ptrdiff_t>(used), padded.features.end(), 0.0f);
    std::fill(other.features.begin() + static_cast<ptrdiff_t>(used), other.features.end(), -1e3f);
    other.labels[6] = -7;
    for (NormalizeRunner* run : {&padded, &other, &exact}) run->Run();
    EXPECT_EQ(padded.results(), other.results()) << yaml;
    EXPECT_THAT(padded.results(), Pointwise(FloatNear(1e-6f), exact.results())) << yaml;
  }
}

TEST(NormalizeLayers, ABatchOfPaddingAloneMovesNothing) {
  for (const auto& yaml : {kBatchNorm, kBlock}) {
    const auto model = MakeNormalized(yaml);
    NormalizeRunner run(model, 3);
    for (auto& p : run.parameters) std::ranges::fill(p, 0.3f);
    std::ranges::fill(run.weights, 0.0f);
    run.Run();
    EXPECT_THAT(run.results(), Each(0.0f)) << yaml;
  }
}

TEST(BatchNormLayer, RunningStatisticsMoveAndScore) {
  const auto model = MakeNormalized(
      "{inputs: 1, layers: [batch_norm: {momentum: 0.75, epsilon: 0.0001}], loss: {type: squared_error}}");
  EXPECT_EQ(model.variables()[2].role, optim::VariableRole::kStatistic);
  NormalizeRunner train(model, 4);
  train.features = {1, 3, 5, 100};
  train.weights = {1, 1, 1, 0};
  train.Run();
  // The valid rows have mean 3 and variance 8/3; the running values move a quarter of the way from 0 and 1.
  EXPECT_THAT(train.gradient("batch_norm1/mean"), ElementsAre(FloatNear(-0.75f, 1e-6f)));
  EXPECT_THAT(train.gradient("batch_norm1/variance"), ElementsAre(FloatNear(-5.0f / 12, 1e-6f)));
  const float deviation = std::sqrt(8.0f / 3 + 1e-4f);
  EXPECT_THAT(train.scores(), ElementsAre(FloatNear(-2 / deviation, 1e-5f), FloatNear(0, 1e-6f),
                                          FloatNear(2 / deviation, 1e-5f), 0));
  NormalizeRunner score(model, 2, false);
  score.features = {1, 7};
  const float values[] = {2, 10, 3, 4};
  for (size_t v = 0; v < 4; ++v) score.parameters[v][0] = values[v];
  score.Run();
  EXPECT_THAT(score.scores(), ElementsAre(FloatNear(10 - 2, 1e-3f), FloatNear(10 + 4, 1e-3f)));
}

TEST(DropoutLayer, DropsAnotherPartEachStepAndNothingWhenScoring) {
  const auto model =
      MakeNormalized("{inputs: 1000, layers: [dropout: {rate: 0.25}], loss: {type: negative_sum}}");
  NormalizeRunner train(model, 2), score(model, 2, false);
  for (NormalizeRunner* run : {&train, &score}) std::ranges::fill(run->features, 3.0f);
  score.Run();
  EXPECT_THAT(score.scores(), Each(3.0f));
  train.Run();
  const auto first = train.scores();
  EXPECT_THAT(first, Each(::testing::AnyOf(0.0f, ::testing::FloatEq(4.0f))));
  // Expected 500 of 2000 with a standard deviation of 19.
  EXPECT_NEAR(static_cast<double>(std::ranges::count(first, 0.0f)), 500, 100);
  train.Run();
  EXPECT_EQ(train.scores(), first);
  train.random_seed = 2;
  train.Run();
  EXPECT_NE(train.scores(), first);
}

TEST(DropoutLayer, LayersDropApart) {
  const auto twice = MakeNormalized(
      "{inputs: 1000, layers: [dropout: {rate: 0.5}, dropout: {rate: 0.5}], loss: {type: negative_sum}}");
  NormalizeRunner run(twice, 1);
  std::ranges::fill(run.features, 1.0f);
  run.Run();
  // A quarter is left if the two layers are independent, half if they drop the same elements.
  EXPECT_NEAR(static_cast<double>(std::ranges::count(run.scores(), 4.0f)), 250, 70);
}

TEST(AttentionLayer, ACausalOneDoesNotSeeWhatComesLater) {
  const std::string layers = "{inputs: [5, 4], layers: [attention: {heads: 2, units: 6, causal: ";
  for (const bool causal : {true, false}) {
    const auto model =
        MakeNormalized(layers + (causal ? "true" : "false") + "}], loss: {type: negative_sum}}");
    NormalizeRunner run(model, 2, false);
    run.Run();
    const auto before = run.scores();
    // The third step of the first row.
    for (size_t c = 0; c < 4; ++c) run.features[2 * 4 + c] += 1;
    run.Run();
    const auto after = run.scores();
    const auto changed = [&](size_t row, size_t step) {
      const auto begin = static_cast<ptrdiff_t>((row * 5 + step) * 4);
      return !std::equal(before.begin() + begin, before.begin() + begin + 4, after.begin() + begin);
    };
    for (size_t step = 0; step < 5; ++step) {
      EXPECT_EQ(changed(0, step), step >= 2 || !causal) << step;
      EXPECT_FALSE(changed(1, step)) << step;
    }
  }
}

TEST(ResidualLayer, AddsWhatItsLayersMakeAndNamesThem) {
  const auto model = MakeNormalized(
      "{inputs: 3, layers: [residual: {layers: [dense: {units: 3, init: {constant: 1}}, relu]}, "
      "residual: {name: second, layers: [dense: {units: 3, init: zeros}, residual: {layers: "
      "[layer_norm]}]}], "
      "loss: {type: negative_sum}}");
  std::vector<std::string> names;
  for (const auto& v : model.variables()) names.push_back(v.name);
  EXPECT_THAT(names, ElementsAre("residual1/dense1/weight", "residual1/dense1/bias", "second/dense1/weight",
                                 "second/dense1/bias", "second/residual1/layer_norm1/scale",
                                 "second/residual1/layer_norm1/offset"));
  const auto step = model.Build(2);
  EXPECT_TRUE(step.graph.Find("second/residual1/layer_norm1/layer_norm").has_value());
  NormalizeRunner run(model, 1, false);
  run.features = {1, 2, -1};
  run.Run();
  EXPECT_THAT(run.scores(), Pointwise(FloatNear(1e-5f), std::vector<float>{3, 4, 1}));
}

TEST(NormalizeLayers, RefuseWhatDoesNotFit) {
  const auto message = [](const std::string& layers) -> std::string {
    try {
      MakeNormalized("inputs: [4, 6]\nlayers:\n" + layers + "loss: {type: negative_sum}\n");
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  const std::pair<std::string, std::string> cases[] = {
      {"  - attention: {heads: 4}\n", "job.yaml:3: layer attention1: 6 units cannot be divided into 4 heads"},
      {"  - flatten\n  - attention: {heads: 4}\n",
       "job.yaml:4: layer attention1: attention needs rows of [time, channels], not [24]"},
      {"  - flatten\n  - position\n",
       "job.yaml:4: layer position1: position needs rows of [time, channels], not [24]"},
      {"  - residual: {layers: [dense: {units: 5}]}\n",
       "job.yaml:3: layer residual1: its layers turn [4, 6] into [4, 5]; a residual needs the same shape"},
      {"  - residual: {layers: []}\n", "job.yaml:3: layers is empty"},
      {"  - residual\n", "job.yaml:3: layer residual needs settings"},
      {"  - dropout: {rate: 1}\n", "job.yaml:3: rate is 1; must be between 0 and 0.99"},
      {"  - dropout: {}\n", "job.yaml:3: dropout has no 'rate'"},
      {"  - layer_norm: {epsilon: 0}\n", "job.yaml:3: epsilon is 0; must be between"},
      {"  - batch_norm: {momentum: 2}\n", "job.yaml:3: momentum is 2; must be between 0 and 1"},
      {"  - gelu: {exact: true}\n", "job.yaml:3: unknown key 'exact' in gelu"},
  };
  for (const auto& [layers, expected] : cases) EXPECT_THAT(message(layers), HasSubstr(expected)) << layers;
}

}  // namespace
}  // namespace leat::nn
