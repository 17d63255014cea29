// Models with embeddings and recurrent layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "compute/nn/testing.h"

namespace leat::nn {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Model MakeRecurrent(const std::string& yaml, uint32_t labels = 1) {
  return Model::FromConfig(Config::Parse(yaml, "job.yaml"), {.labels = labels});
}

std::string RecurrentMessage(const std::string& yaml) {
  try {
    MakeRecurrent(yaml);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

std::string Sequences(const std::string& layers) {
  return "inputs: 5\nlayers:\n" + layers + "loss: {type: negative_sum}\n";
}

TEST(RecurrentLayers, HaveTheShapesAndVariablesOfTheirKind) {
  const Model lstm = MakeRecurrent(Sequences("  - embedding: {size: 7, units: 3}\n  - lstm: {units: 4}\n"));
  EXPECT_EQ(lstm.ToString(), "5-5x3-5x4 negative_sum, 149 parameters");
  EXPECT_EQ(lstm.feature_ids(), std::vector<uint32_t>(5, 7));
  std::vector<std::string> names;
  for (const auto& variable : lstm.variables()) names.push_back(variable.name + variable.shape.ToString());
  EXPECT_THAT(names, ElementsAre("embedding1/table[7, 3]", "lstm1/input_weight[3, 16]",
                                 "lstm1/state_weight[4, 16]", "lstm1/bias[16]"));
  const Model gru = MakeRecurrent(Sequences(
      "  - embedding: {size: 7, units: 3}\n  - gru: {units: 4, bidirectional: true, return: last}\n"));
  EXPECT_EQ(gru.ToString(), "5-5x3-8 negative_sum, 221 parameters");
  const Model rnn =
      MakeRecurrent(Sequences("  - embedding: {size: 7, units: 3}\n  - rnn: {units: 4, return: last}\n"));
  EXPECT_EQ(rnn.ToString(), "5-5x3-4 negative_sum, 53 parameters");
}

TEST(RecurrentLayers, ForgetGatesStartOpen) {
  ModelStep runner(MakeRecurrent(Sequences("  - embedding: {size: 7, units: 3}\n  - lstm: {units: 2}\n")), 1);
  EXPECT_THAT(runner.parameter("lstm1/bias"), ElementsAre(0, 0, 1, 1, 0, 0, 0, 0));
  ModelStep closed(
      MakeRecurrent(Sequences("  - embedding: {size: 7, units: 3}\n  - lstm: {units: 2, forget_bias: 0}\n")),
      1);
  EXPECT_THAT(closed.parameter("lstm1/bias"), Each(0));
}

// A unit with known weights: h = tanh(e + w h) over 1 2 0 0 0, which has two valid steps.
TEST(RecurrentLayers, TheLastStateIsThatBehindTheLastStepThatCounts) {
  ModelStep runner(MakeRecurrent(Sequences("  - embedding: {size: 3, units: 1, padding: 0}\n"
                                           "  - rnn: {units: 1, return: last}\n")),
                   2);
  runner.features = {1, 2, 0, 0, 0, 2, 0, 1, 2, 1};
  runner.parameter("embedding1/table") = {9, 0.5f, -0.25f};
  runner.parameter("rnn1/input_weight") = {1};
  runner.parameter("rnn1/state_weight") = {0.75f};
  runner.parameter("rnn1/bias") = {0};
  // Assigned in place: the bound vectors must keep their size.
  runner.Run();
  const auto walk = [](std::vector<double> e) {
    double h = 0;
    for (double x : e) h = std::tanh(x + 0.75 * h);
    return static_cast<float>(h);
  };
  EXPECT_THAT(runner.scores(), ElementsAre(::testing::FloatNear(walk({0.5, -0.25}), 1e-6f),
                                           ::testing::FloatNear(walk({-0.25, 9, 0.5, -0.25, 0.5}), 1e-6f)));
}

// Padding after the end of a sequence affects neither results nor gradients.
TEST(RecurrentLayers, PaddingDoesNotMatter) {
  for (const std::string kind : {"lstm", "gru", "rnn"}) {
    for (const std::string rest :
         {"", ", return: last", ", bidirectional: true", ", reverse: true, return: last"}) {
      ModelStep runner(MakeRecurrent(Sequences("  - embedding: {size: 3, units: 2, padding: 0}\n  - " + kind +
                                               ": {units: 3" + rest + "}\n")),
                       1);
      runner.features.assign({1, 2, 2, 0, 0});
      runner.Run();
      const float loss = runner.loss();
      const auto by_table = runner.gradient("embedding1/table");
      EXPECT_EQ(by_table[0], 0) << kind << rest;
      EXPECT_EQ(by_table[1], 0) << kind << rest;
      EXPECT_NE(by_table[2], 0) << kind << rest;
      auto& table = runner.parameter("embedding1/table");
      table[0] += 10;
      runner.Run();
      EXPECT_EQ(runner.loss(), loss) << kind << rest;
    }
  }
}

TEST(RecurrentLayers, BothDirectionsAreEachOtherReversed) {
  ModelStep runner(MakeRecurrent(Sequences("  - embedding: {size: 4, units: 2}\n"
                                           "  - gru: {units: 2, bidirectional: true, return: last}\n")),
                   2);
  for (const std::string name : {"input_weight", "state_weight", "bias", "new_bias"}) {
    const auto& forward = runner.parameter("gru1/" + name);
    std::ranges::copy(forward, runner.parameter("gru1/reverse_" + name).begin());
  }
  runner.features.assign({0, 1, 2, 3, 1, 1, 3, 2, 1, 0});
  runner.Run();
  const auto scores = runner.scores();
  EXPECT_THAT(std::vector(scores.begin(), scores.begin() + 2),
              ElementsAre(::testing::FloatEq(scores[6]), ::testing::FloatEq(scores[7])));
}

// An LSTM learns to compute a running sum.
TEST(RecurrentLayers, Learn) {
  for (const std::string kind : {"lstm", "gru", "rnn"}) {
    const Model model =
        MakeRecurrent("inputs: 6\nlayers:\n  - embedding: {size: 2, units: 4}\n  - " + kind +
                      ": {units: 8, return: last}\n  - dense: {units: 2}\nloss: softmax_cross_entropy\n");
    ModelStep runner(model, 64);
    for (size_t row = 0; row < 64; ++row) {
      for (size_t t = 0; t < 6; ++t) runner.features[row * 6 + t] = static_cast<float>(row >> t & 1);
      runner.labels[row] = runner.features[row * 6] == runner.features[row * 6 + 1] ? 1 : 0;
    }
    float first = 0;
    for (int step = 0; step < 400; ++step) {
      runner.Run();
      if (step == 0) first = runner.loss();
      for (size_t v = 0; v < runner.parameters.size(); ++v) {
        auto& values = runner.parameters[v];
        const auto gradient = runner.gradient(v);
        for (size_t i = 0; i < values.size(); ++i) values[i] -= 0.3f * gradient[i];
      }
    }
    EXPECT_LT(runner.loss(), 0.3f * first) << kind;
  }
}

TEST(RecurrentLayers, RefuseWhatDoesNotFit) {
  EXPECT_THAT(RecurrentMessage(Sequences("  - lstm: {units: 4}\n")),
              HasSubstr("job.yaml:3: layer lstm1: needs rows of [time, channels], not [5]"));
  EXPECT_THAT(RecurrentMessage(Sequences("  - embedding: {size: 7, units: 3}\n  - lstm: {return: last}\n")),
              HasSubstr("units"));
  EXPECT_THAT(RecurrentMessage(
                  Sequences("  - embedding: {size: 7, units: 3}\n  - gru: {units: 4, forget_bias: 1}\n")),
              HasSubstr("forget_bias"));
  EXPECT_THAT(RecurrentMessage(Sequences("  - embedding: {size: 7, units: 3, padding: 7}\n")),
              HasSubstr("padding"));
  EXPECT_THAT(RecurrentMessage(Sequences(
                  "  - embedding: {size: 7, units: 3}\n  - rnn: {units: 4, activation: softplus}\n")),
              HasSubstr("softplus"));
}

}  // namespace
}  // namespace leat::nn
