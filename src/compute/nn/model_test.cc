#include "compute/nn/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "base/rng.h"
#include "compute/nn/testing.h"
#include "compute/optim/optimizer.h"

namespace leat::nn {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

Model MakeModel(const std::string& yaml, uint32_t features = 0) {
  return Model::FromConfig(Config::Parse(yaml, "job.yaml"), {.features = features});
}

std::string Message(const std::string& yaml, uint32_t features = 0) {
  try {
    MakeModel(yaml, features);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

// A batch of random features and labels.
class Runner : public ModelStep {
 public:
  Runner(const Model& model, uint32_t batch) : ModelStep(model, batch), model_(model), rng_(1) {
    for (auto& x : features) x = static_cast<float>(rng_.Normal());
    for (auto& y : labels) y = DrawLabel();
  }

  float DrawLabel() {
    return model_.classes() > 0 ? static_cast<float>(rng_.Below(model_.classes()))
                                : static_cast<float>(rng_.Normal());
  }

 private:
  const Model& model_;
  Rng rng_;
};

const char* const kModels[] = {
    "{layers: [dense: {units: 4, activation: tanh}, dense: {units: 3}], loss: softmax_cross_entropy}",
    "{layers: [dense: {units: 4, activation: sigmoid}, dense: {units: 2, use_bias: false}], "
    "loss: {type: softmax_cross_entropy, reduction: sum}}",
    "{layers: [dense: {units: 6, activation: relu}, dense: {units: 1}], loss: sigmoid_cross_entropy}",
    "{layers: [dense: {units: 3, activation: tanh}, dense: {units: 1, activation: sigmoid}], "
    "loss: {type: squared_error, weight: 0.5}}",
    "{layers: [dense: {units: 5, activation: tanh}, dense: {units: 1}], loss: {type: huber, delta: 0.4}}",
    "{layers: [dense: {units: 5, activation: tanh}, dense: {units: 1}], loss: {type: absolute_error, weight: "
    "0.5}}",
    "{layers: [dense: {units: 3}], loss: negative_sum}",
    "{layers: [bias: {units: 5, init: {constant: 0.5}}], loss: {type: negative_sum, reduction: mean}}",
};

TEST(Model, GradientsAreTheSlopesOfTheLoss) {
  for (const char* yaml : kModels) {
    const auto model = MakeModel(yaml, 5);
    Runner run(model, 6);
    run.weights = {1, 1, 0.5f, 0, 1, 2};
    run.Run();
    for (size_t v = 0; v < model.variables().size(); ++v) {
      const auto gradient = run.gradient(v);
      ASSERT_EQ(gradient.size(), run.parameters[v].size());
      for (size_t i = 0; i < gradient.size(); ++i) {
        constexpr float kStep = 1e-2f;
        float& at = run.parameters[v][i];
        const float before = at;
        at = before + kStep;
        run.Run();
        const float above = run.loss();
        at = before - kStep;
        run.Run();
        const float slope = (above - run.loss()) / (2 * kStep);
        at = before;
        ASSERT_NEAR(gradient[i], slope, 2e-3 + 2e-3 * std::abs(slope))
            << yaml << " " << model.variables()[v].name << " " << i;
      }
    }
  }
}

// A frozen layer has the values that it would begin with, and the others have the same gradients.
TEST(Model, FrozenLayersAreConstants) {
  const std::string layers =
      "{layers: [dense: {units: 4, activation: tanh}, residual: {layers: [dense: {units: 4}, batch_norm]}, "
      "dense: {units: 3}], loss: softmax_cross_entropy}";
  const auto whole = MakeModel(layers, 5);
  std::string yaml = layers;
  yaml.replace(yaml.find("activation: tanh"), 16, "activation: tanh, trainable: false");
  yaml.replace(yaml.find("[dense: {units: 4}, "), 20, "[dense: {units: 4, trainable: false}, ");
  const auto frozen = MakeModel(yaml, 5);

  std::vector<std::string> names;
  for (const auto& variable : frozen.variables()) names.push_back(variable.name);
  EXPECT_THAT(names, ElementsAre("residual1/batch_norm1/scale", "residual1/batch_norm1/offset",
                                 "residual1/batch_norm1/mean", "residual1/batch_norm1/variance",
                                 "dense2/weight", "dense2/bias"));
  names.clear();
  Runner all(whole, 6), some(frozen, 6);
  for (const auto& variable : frozen.frozen()) {
    names.push_back(variable.spec.name);
    EXPECT_THAT(variable.values.as<float>(), testing::ElementsAreArray(all.parameter(variable.spec.name)));
  }
  EXPECT_THAT(
      names, ElementsAre("dense1/weight", "dense1/bias", "residual1/dense1/weight", "residual1/dense1/bias"));
  EXPECT_EQ(frozen.parameters(), whole.parameters() - 5 * 4 - 4 - 4 * 4 - 4);
  all.Run();
  some.Run();
  EXPECT_EQ(some.loss(), all.loss());
  for (const auto& variable : frozen.variables())
    EXPECT_EQ(some.gradient(variable.name), all.gradient(variable.name)) << variable.name;
}

TEST(Model, FrozenValuesAreThoseOfTheJobsSeed) {
  const char* yaml =
      "{layers: [dense: {units: 4, trainable: false}, dense: {units: 1}], loss: squared_error}";
  const auto values = [&](uint64_t seed) {
    const auto model = Model::FromConfig(Config::Parse(yaml, "job.yaml"), {.features = 5, .seed = seed});
    const auto all = model.frozen().front().values.as<float>();
    return std::vector<float>(all.begin(), all.end());
  };
  std::vector<float> expected(20);
  const auto trained = MakeModel("{layers: [dense: {units: 4}], loss: negative_sum}", 5).variables().front();
  optim::Initialise(trained.init, 9, trained.name, 0, expected);
  EXPECT_EQ(values(9), expected);
  EXPECT_NE(values(8), expected);
}

TEST(Model, RefusesToTrainNothing) {
  EXPECT_EQ(Message("{layers: [dense: {units: 1, trainable: false}], loss: squared_error}", 3),
            "job.yaml:1: nothing is trained: every layer with parameters has trainable: false");
  EXPECT_THAT(Message("{layers: [dense: {units: 1, trainable: 0}], loss: squared_error}", 3),
              HasSubstr("job.yaml:1"));
}

TEST(Model, LossAndScoresAreThoseOfTheFormulas) {
  const auto model = MakeModel(kModels[0], 5);
  Runner run(model, 4);
  run.Run();
  double sum = 0;
  std::vector<float> expected;
  for (size_t r = 0; r < 4; ++r) {
    std::vector<double> hidden(4), out(3);
    for (size_t j = 0; j < 4; ++j) {
      double z = run.parameters[1][j];
      for (size_t k = 0; k < 5; ++k) z += double{run.features[r * 5 + k]} * run.parameters[0][k * 4 + j];
      hidden[j] = std::tanh(z);
    }
    double total = 0;
    for (size_t j = 0; j < 3; ++j) {
      double z = run.parameters[3][j];
      for (size_t k = 0; k < 4; ++k) z += hidden[k] * run.parameters[2][k * 3 + j];
      total += out[j] = std::exp(z);
    }
    for (double e : out) expected.push_back(static_cast<float>(e / total));
    sum -= std::log(out[static_cast<size_t>(run.labels[r])] / total);
  }
  EXPECT_NEAR(run.loss(), sum / 4, 1e-6);
  EXPECT_THAT(run.scores(), Pointwise(FloatNear(1e-6f), expected));
}

TEST(Model, SigmoidAndSquaredErrorScoreByRow) {
  for (const char* yaml : {kModels[2], kModels[3]}) {
    const auto model = MakeModel(yaml, 5);
    Runner run(model, 3);
    run.Run();
    double sum = 0;
    const auto scores = run.scores();
    ASSERT_EQ(scores.size(), 3u);
    for (size_t r = 0; r < 3; ++r) {
      const double s = scores[r], y = run.labels[r];
      if (model.task() == Task::kBinary) sum += -y * std::log(s) - (1 - y) * std::log(1 - s);
      if (model.task() == Task::kRegression) sum += 0.5 * (s - y) * (s - y);
    }
    EXPECT_NEAR(run.loss(), sum / 3, 1e-5);
  }
}

// Rows of weight 0 do not affect any bit of the results, which equal those of the short batch.
TEST(Model, RowsOfWeightZeroAddExactlyNothing) {
  for (const char* yaml : kModels) {
    const auto model = MakeModel(yaml, 5);
    Runner padded(model, 8), other(model, 8), exact(model, 5);
    std::ranges::copy(exact.features, padded.features.begin());
    std::ranges::copy(exact.labels, padded.labels.begin());
    other.features = padded.features;
    other.labels = padded.labels;
    std::fill(padded.weights.begin() + 5, padded.weights.end(), 0.0f);
    other.weights = padded.weights;
    std::fill(padded.features.begin() + 25, padded.features.end(), 0.0f);
    std::fill(padded.labels.begin() + 5, padded.labels.end(), 0.0f);
    std::fill(other.features.begin() + 25, other.features.end(), -1e3f);
    other.labels[5] = 1;
    other.labels[6] = -7;
    other.labels[7] = model.task() == Task::kClasses ? std::nanf("") : 1e3f;
    for (Runner* run : {&padded, &other, &exact}) run->Run();
    EXPECT_EQ(padded.results(), other.results()) << yaml;
    EXPECT_THAT(padded.results(), Pointwise(FloatNear(1e-6f), exact.results())) << yaml;
  }
}

TEST(Model, ABatchOfPaddingAloneIsZero) {
  for (const char* yaml : kModels) {
    const auto model = MakeModel(yaml, 5);
    Runner run(model, 3);
    std::ranges::fill(run.weights, 0.0f);
    run.Run();
    EXPECT_THAT(run.results(), Each(0.0f)) << yaml;
  }
}

TEST(Model, AMeanDividesByTheSumOfWeights) {
  const auto model = MakeModel(kModels[0], 5);
  Runner twice(model, 3), weighted(model, 2);
  std::copy_n(twice.features.begin(), 10, weighted.features.begin());
  std::copy_n(twice.labels.begin(), 2, weighted.labels.begin());
  std::copy_n(twice.features.begin() + 5, 5, twice.features.begin() + 10);
  twice.labels[2] = twice.labels[1];
  weighted.weights = {1, 2};
  twice.Run();
  weighted.Run();
  EXPECT_THAT(weighted.results(), Pointwise(FloatNear(1e-6f), twice.results()));
}

TEST(Model, TheCountingModelCountsRowsExactly) {
  const auto model = MakeModel("{inputs: 1, layers: [bias: {units: 8}], loss: negative_sum}");
  Runner run(model, 128);
  const optim::OptimizerConfig sgd{.kind = optim::Kind::kSgd, .learning_rate = 1};
  uint64_t events = 0;
  for (uint64_t step = 1; events < 1'000'000; ++step) {
    const auto rows = std::min<uint64_t>(1'000'000 - events, step % 3 == 0 ? 77 : 128);
    std::ranges::fill(run.weights, 0.0f);
    std::fill_n(run.weights.begin(), rows, 1.0f);
    run.Run();
    ASSERT_THAT(run.gradient(0), Each(-static_cast<float>(rows)));
    optim::Apply(sgd, run.parameters[0], run.gradient(0), {}, step, 1);
    events += rows;
  }
  EXPECT_THAT(run.parameters[0], Each(1'000'000.0f));
}

TEST(Model, LearnsWhatALineCannotSeparate) {
  const auto model = MakeModel(
      "{inputs: 2, layers: [dense: {units: 16, activation: relu}, dense: {units: 2}], "
      "loss: softmax_cross_entropy}");
  Runner run(model, 64);
  for (size_t r = 0; r < 64; ++r) {
    run.labels[r] = run.features[2 * r] * run.features[2 * r + 1] > 0 ? 1.0f : 0.0f;
  }
  const optim::OptimizerConfig sgd{.kind = optim::Kind::kSgd, .learning_rate = 0.3f};
  for (uint64_t step = 1; step <= 600; ++step) {
    run.Run();
    for (size_t v = 0; v < run.parameters.size(); ++v) {
      optim::Apply(sgd, run.parameters[v], run.gradient(v), {}, step, 1);
    }
  }
  run.Run();
  EXPECT_LT(run.loss(), 0.2);
  EXPECT_GE(CountCorrect(model, run.scores(), run.labels), 60u);
}

TEST(Model, ListsItsVariables) {
  const auto model = MakeModel(
      "{layers: [dense: {units: 512, activation: relu}, dense: {units: 512, activation: tanh, name: mid}, "
      "dense: {units: 10, use_bias: false, init: zeros}], loss: softmax_cross_entropy}",
      784);
  std::vector<std::string> all;
  for (const auto& v : model.variables()) all.push_back(v.name + v.shape.ToString());
  EXPECT_THAT(all, ElementsAre("dense1/weight[784, 512]", "dense1/bias[512]", "mid/weight[512, 512]",
                               "mid/bias[512]", "dense3/weight[512, 10]"));
  using Kind = optim::InitKind;
  EXPECT_EQ(model.variables()[0].init, (optim::InitSpec{Kind::kHeNormal, 0, 784, 512}));
  EXPECT_EQ(model.variables()[2].init, (optim::InitSpec{Kind::kGlorotUniform, 0, 512, 512}));
  EXPECT_EQ(model.variables()[4].init.kind, Kind::kZeros);
  EXPECT_EQ(model.task(), Task::kClasses);
  EXPECT_EQ(model.classes(), 10u);
  EXPECT_EQ(model.ToString(), "784-512-512-10 softmax_cross_entropy, 669696 parameters");
  const auto step = model.Build(128);
  EXPECT_EQ(step.graph.shape(step.scores), (Shape{128, 10}));
  EXPECT_EQ(step.graph.node(step.variables[2]).name, "mid/weight");
}

TEST(Model, ScoresAreHeldAgainstLabels) {
  const auto three = MakeModel("{inputs: 1, layers: [dense: {units: 3}], loss: softmax_cross_entropy}");
  EXPECT_EQ(CountCorrect(three, std::vector<float>{.1f, .2f, .7f, .5f, .3f, .2f, 0, 1, 0},
                         std::vector<float>{2, 1, 1}),
            2u);
  const auto two = MakeModel("{inputs: 1, layers: [dense: {units: 2}], loss: softmax_cross_entropy}");
  std::vector<float> positive(2);
  PositiveScores(two, std::vector<float>{.9f, .1f, .4f, .6f}, positive);
  EXPECT_THAT(positive, ElementsAre(.1f, .6f));
  const auto one = MakeModel("{inputs: 1, layers: [dense: {units: 1}], loss: sigmoid_cross_entropy}");
  PositiveScores(one, std::vector<float>{.3f, .8f, .5f}, positive);
  EXPECT_THAT(positive, ElementsAre(.3f, .8f));
  EXPECT_EQ(CountCorrect(one, std::vector<float>{.3f, .8f, .5f}, std::vector<float>{1, 1, 1}), 2u);
  const auto number = MakeModel("{inputs: 1, layers: [dense: {units: 1}], loss: squared_error}");
  EXPECT_EQ(CountCorrect(number, std::vector<float>{1}, std::vector<float>{1}), 0u);
  EXPECT_EQ(AbsoluteError(number, std::vector<float>{1, -2, 7}, std::vector<float>{1.5f, 2}), 4.5);
  EXPECT_EQ(AbsoluteError(one, std::vector<float>{.3f}, std::vector<float>{1}), 0);
}

TEST(ModelErrors, NameLineLayerAndTheNearestWord) {
  const auto model = [](const std::string& layers, const std::string& loss = "softmax_cross_entropy") {
    return "inputs: 4\nlayers:\n" + layers + "loss: " + loss + "\n";
  };
  const std::string two = "  - dense: {units: 2}\n";
  const std::pair<std::string, std::string> cases[] = {
      {model("  - dens: {units: 2}\n"), "job.yaml:3: unknown layer 'dens'; did you mean 'dense'?"},
      {model("  - fourier: {units: 2}\n"),
       "job.yaml:3: unknown layer 'fourier'; expected one of: dense, bias"},
      {model("  - dense\n"), "job.yaml:3: layer dense needs settings; write - dense: {units: 10}"},
      {model("  - dense: {units: 2}\n    bias: {units: 2}\n"),
       "job.yaml:3: a layer must be a map of one kind to its settings, such as - dense: {units: 10}"},
      {model("  - dense: {unit: 2}\n"), "job.yaml:3: unknown key 'unit' in dense; did you mean 'units'?"},
      {model("  - dense:\n      activation: relu\n"), "job.yaml:3: dense has no 'units'"},
      {model("  - dense: {units: 0}\n"), "job.yaml:3: units is 0; must be between 1 and 1048576"},
      {model(two + "  - dense: {units: 2, activation: rellu}\n"),
       "job.yaml:4: unknown activation 'rellu'; did you mean 'relu'?"},
      {model("  - dense: {units: 2, init: he_norm}\n"), "job.yaml:3: unknown init 'he_norm'"},
      {model("  - dense: {units: 2, init: constant}\n"), "job.yaml:3: init constant needs a value"},
      {model("  - dense: {units: 2, name: a/b}\n"), "job.yaml:3: layer name 'a/b'"},
      {model("  - dense: {units: 2, name: \"a\\nb\"}\n"), "job.yaml:3: layer name 'a?b'"},
      {model("  - dense: {units: 2, device: \"cpu:0\\nb\"}\n"), "job.yaml:3: device: must be a name"},
      {model(two + "  - bias: {units: 2, name: dense1}\n"), "job.yaml:4: two layers are named 'dense1'"},
      {model("", "negative_sum"), "job.yaml:2: layers is empty"},
      {model(two, "softmax_crossentropy"),
       "job.yaml:4: unknown loss 'softmax_crossentropy'; did you mean 'softmax_cross_entropy'?"},
      {model(two, "{type: squared_error, reduction: men}"), "job.yaml:4: unknown reduction 'men'"},
      {model(two, "{type: squared_error, delta: 2}"),
       "job.yaml:4: loss squared_error has no delta; only huber has one"},
      {model(two, "{reduction: mean}"), "job.yaml:4: loss has no 'type'"},
      {model(two, "sigmoid_cross_entropy"),
       "job.yaml:4: loss sigmoid_cross_entropy needs 1 unit; the last layer, dense1, has 2"},
      {model("  - dense: {units: 1}\n"),
       "job.yaml:4: loss softmax_cross_entropy needs one unit per class, at least 2; the last layer, "
       "dense1, "
       "has 1"},
      {model("  - dense: {units: 2, activation: relu}\n"), "job.yaml:3: layer dense1 has an activation"},
      {model("  - dense: {units: 2}\n  - softmax\n  - dropout: {rate: 0.1}\n  - reshape: {shape: [2, 1]}\n"
             "  - flatten\n"),
       "job.yaml:4: layer softmax1 has an activation"},
      {"layers: []\n", "job.yaml:1: model has no 'inputs'"},
      {"inputs: 4\nlayer: []\n", "job.yaml:2: unknown key 'layer'; did you mean 'layers'?"},
      {"inputs: 4\n", "job.yaml:1: the job has no 'layers'"},
      {model("  - dense: {units: 1000000}\n  - dense: {units: 1000000}\n"),
       "job.yaml:4: layer dense2: with dense2/weight[1000000, 1000000] the model has more than 2^36 "
       "parameters"},
  };
  for (const auto& [yaml, message] : cases) EXPECT_THAT(Message(yaml), HasSubstr(message)) << yaml;
  EXPECT_EQ(Message(model(two)), "");
  EXPECT_EQ(Message(model(two), 30), "job.yaml:1: inputs is 4, but the schema gives 30 features per record");
  EXPECT_EQ(Message(model(two), 4), "");
}

}  // namespace
}  // namespace leat::nn
