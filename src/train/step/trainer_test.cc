#include "train/step/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/rng.h"
#include "compute/kernels/cpu/table.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/passes.h"
#include "compute/optim/init.h"

namespace leat::step {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

engine::PlanOptions ReferenceKernels() {
  engine::PlanOptions options;
  options.tables = {&reference::Kernels()};
  return options;
}
// The options of the program.
engine::PlanOptions CpuKernels() {
  engine::PlanOptions options;
  options.tables = {&cpu::Table(), &reference::Kernels()};
  options.passes = ops::StandardPasses();
  return options;
}

nn::Model Make(const std::string& yaml, uint32_t features) {
  return nn::Model::FromConfig(Config::Parse(yaml, "job.yaml"), {.features = features});
}
protocol::SliceTable TableOf(const nn::Model& model) {
  return protocol::MakeSlices({model.variables().begin(), model.variables().end()}, 1, 2);
}

// A model with parameters drawn from a seed, and a trainer on them.
struct Bench {
  Bench(const std::string& yaml, uint32_t features, const engine::PlanOptions& options, uint64_t seed = 1)
      : model(Make(yaml, features)), parameters(TableOf(model)), trainer(model, parameters, options) {
    for (size_t v = 0; v < model.variables().size(); ++v) {
      const auto& spec = model.variables()[v];
      optim::Initialise(spec.init, seed, spec.name, 0, parameters.values(v));
    }
  }
  std::vector<float> Gradients() const {
    std::vector<float> all;
    for (size_t v = 0; v < model.variables().size(); ++v) {
      const auto part = parameters.gradients(v);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  nn::Model model;
  protocol::Parameters parameters;
  Trainer trainer;
};

// Rows with features and labels drawn from a seed.
struct TrainerData {
  TrainerData(uint32_t rows, uint32_t width, uint32_t classes, uint64_t seed = 2)
      : features(size_t{rows} * width), labels(rows), truth(rows), order(rows) {
    Rng rng(seed);
    for (auto& x : features) x = static_cast<float>(rng.Normal());
    for (auto& y : labels) y = static_cast<float>(classes > 0 ? rng.Below(classes) : rng.Normal());
    for (auto& p : truth) p = static_cast<float>(rng.Uniform());
    std::iota(order.begin(), order.end(), 0u);
  }
  Rows rows(bool with_truth = false) const {
    return {.features = features,
            .labels = labels,
            .truth = with_truth ? std::span<const float>(truth) : std::span<const float>()};
  }
  std::vector<float> features, labels, truth;
  std::vector<uint32_t> order;
};

const char* const kTwoClasses =
    "{layers: [dense: {units: 6, activation: relu}, dense: {units: 2}], loss: softmax_cross_entropy}";
const char* const kOneProbability =
    "{layers: [dense: {units: 6, activation: tanh}, dense: {units: 1}], loss: sigmoid_cross_entropy}";
const char* const kManyClasses =
    "{layers: [dense: {units: 7, activation: sigmoid}, dense: {units: 5}], "
    "loss: {type: softmax_cross_entropy, reduction: sum}}";
const char* const kNumber = "{layers: [dense: {units: 1}], loss: {type: squared_error, weight: 0.5}}";

class KernelsTest : public ::testing::TestWithParam<bool> {
 protected:
  engine::PlanOptions Options() const { return GetParam() ? CpuKernels() : ReferenceKernels(); }
};
INSTANTIATE_TEST_SUITE_P(All, KernelsTest, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "fast" : "reference"; });

// ---- closed forms

TEST_P(KernelsTest, LinearRegressionByHand) {
  Bench bench("{layers: [dense: {units: 1}], loss: squared_error}", 2, Options());
  const auto w = bench.parameters.values(size_t{0}), b = bench.parameters.values(size_t{1});
  w[0] = 2;
  w[1] = -1;
  b[0] = 0.5f;
  const std::vector<float> features{1, 2, 3, 4, 9, 9, -1, 0.5f}, labels{1, 0, 77, 2};
  const std::vector<uint32_t> batch{0, 3, 1};  // not row 2
  const auto outcome = bench.trainer.Step({features, labels, {}}, batch, 3);
  // o = 2 x0 − x1 + 0.5: 0.5, −2, 2.5; errors −0.5, −4, 2.5; l = e².
  EXPECT_EQ(outcome.events, 3u);
  EXPECT_NEAR(outcome.loss_sum, 0.25 + 16 + 6.25, 1e-5);
  EXPECT_TRUE(outcome.finite);
  EXPECT_EQ(outcome.correct, 0u) << "a number is not right or wrong";
  EXPECT_NEAR(outcome.absolute_error, 0.5 + 4 + 2.5, 1e-5);
  // dL/do = 2e/3.
  EXPECT_NEAR(bench.parameters.gradients(size_t{0})[0], 2 * (-0.5 * 1 + -4 * -1 + 2.5 * 3) / 3, 1e-5);
  EXPECT_NEAR(bench.parameters.gradients(size_t{0})[1], 2 * (-0.5 * 2 + -4 * 0.5 + 2.5 * 4) / 3, 1e-5);
  EXPECT_NEAR(bench.parameters.gradients(size_t{1})[0], 2 * (-0.5 + -4 + 2.5) / 3, 1e-5);
}

TEST_P(KernelsTest, ASumOfLossesIsTheSumAndAMeanIsTimesItsEvents) {
  const TrainerData data(10, 3, 2);
  Bench mean("{layers: [dense: {units: 2}], loss: softmax_cross_entropy}", 3, Options());
  Bench sum("{layers: [dense: {units: 2}], loss: {type: softmax_cross_entropy, reduction: sum}}", 3,
            Options());
  const auto of_mean = mean.trainer.Step(data.rows(), data.order, 16);
  const auto of_sum = sum.trainer.Step(data.rows(), data.order, 16);
  EXPECT_NEAR(of_mean.loss_sum, of_sum.loss_sum, 1e-5);
  const auto a = mean.Gradients(), b = sum.Gradients();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i] * 10, b[i], 1e-5);
}

TEST_P(KernelsTest, TheCountingModelCounts) {
  Bench bench("{layers: [bias: {units: 5}], loss: {type: negative_sum, reduction: sum}}", 1, Options());
  const TrainerData data(8, 1, 0);
  for (const uint32_t events : {8u, 3u, 1u, 8u}) {
    const auto outcome = bench.trainer.Step(data.rows(), std::span(data.order).first(events), 8);
    EXPECT_EQ(outcome.events, events);
    EXPECT_THAT(bench.Gradients(), ::testing::Each(-static_cast<float>(events)));
  }
}

// ---- batches

TEST_P(KernelsTest, AShortBatchIsTheBatchOfItsSize) {
  for (const char* yaml : {kTwoClasses, kOneProbability, kManyClasses, kNumber}) {
    SCOPED_TRACE(yaml);
    const uint32_t classes = yaml == kManyClasses ? 5 : yaml == kNumber ? 0 : 2;
    const TrainerData data(32, 4, classes);
    Bench padded(yaml, 4, Options());
    // Long and short ones in turns: what a longer batch leaves behind must not count.
    for (const uint32_t events : {32u, 7u, 1u, 31u, 2u}) {
      Bench exact(yaml, 4, Options());
      const auto batch = std::span(data.order).last(events);
      const auto a = padded.trainer.Step(data.rows(), batch, 32);
      const auto b = exact.trainer.Step(data.rows(), batch, events);
      EXPECT_EQ(a.events, events);
      EXPECT_EQ(a.correct, b.correct);
      EXPECT_NEAR(a.loss_sum, b.loss_sum, 1e-4 * std::abs(b.loss_sum));
      const auto ga = padded.Gradients(), gb = exact.Gradients();
      for (size_t i = 0; i < ga.size(); ++i) ASSERT_NEAR(ga[i], gb[i], 1e-5) << i << " of " << events;
    }
  }
}

TEST_P(KernelsTest, WhatALongerBatchLeftBehindDoesNotCountHoweverWildItWas) {
  TrainerData data(4, 4, 2);
  for (size_t i = 4; i < data.features.size(); ++i) data.features[i] = 3e38f;  // rows 1 to 3
  Bench bench(kTwoClasses, 4, Options());
  EXPECT_FALSE(bench.trainer.Step(data.rows(), data.order, 4).finite);
  const auto outcome = bench.trainer.Step(data.rows(), std::span(data.order).first(1), 4);
  EXPECT_TRUE(outcome.finite);
  EXPECT_TRUE(std::isfinite(outcome.loss_sum));
}

TEST(Trainer, FastKernelsAgreeWithTheReference) {
  for (const char* yaml : {kTwoClasses, kOneProbability, kManyClasses, kNumber}) {
    const uint32_t classes = yaml == kManyClasses ? 5 : yaml == kNumber ? 0 : 2;
    const TrainerData data(40, 6, classes);
    Bench fast(yaml, 6, CpuKernels()), plain(yaml, 6, ReferenceKernels());
    for (const uint32_t events : {40u, 13u}) {
      const auto a = fast.trainer.Step(data.rows(), std::span(data.order).first(events), 40);
      const auto b = plain.trainer.Step(data.rows(), std::span(data.order).first(events), 40);
      EXPECT_NEAR(a.loss_sum, b.loss_sum, 1e-4 * std::abs(b.loss_sum)) << yaml;
      EXPECT_EQ(a.correct, b.correct) << yaml;
      const auto ga = fast.Gradients(), gb = plain.Gradients();
      for (size_t i = 0; i < ga.size(); ++i) ASSERT_NEAR(ga[i], gb[i], 1e-4) << yaml << " " << i;
    }
  }
}

TEST_P(KernelsTest, SeveralBatchSizesShareTheParameters) {
  const TrainerData data(64, 4, 2);
  Bench bench(kTwoClasses, 4, Options());
  for (const uint32_t size : {64u, 16u, 64u, 1u, 33u, 16u}) {
    bench.trainer.Step(data.rows(), std::span(data.order).first(size), size);
    Bench fresh(kTwoClasses, 4, Options());
    for (size_t v = 0; v < fresh.model.variables().size(); ++v)
      std::ranges::copy(bench.parameters.values(v), fresh.parameters.values(v).begin());
    fresh.trainer.Step(data.rows(), std::span(data.order).first(size), size);
    EXPECT_EQ(bench.Gradients(), fresh.Gradients()) << size;
    // Values that arrive from a server are read by every plan.
    for (size_t v = 0; v < bench.model.variables().size(); ++v) {
      const auto g = bench.parameters.gradients(v);
      for (size_t i = 0; i < g.size(); ++i) bench.parameters.values(v)[i] -= 0.1f * g[i];
    }
  }
}

// Plans of all sizes are bound anew, whichever of them finds the memory held.
TEST_P(KernelsTest, GradientsThatAreHeldStayAndTheNextOnesGoElsewhere) {
  const TrainerData data(32, 4, 2);
  Bench bench(kTwoClasses, 4, Options()), undisturbed(kTwoClasses, 4, Options());
  std::vector<Buffer> held;
  std::vector<std::vector<float>> were;
  const auto floats = [](const Buffer& buffer) {
    const auto* at = reinterpret_cast<const float*>(buffer.data());
    return std::vector<float>(at, at + buffer.size() / sizeof(float));
  };
  std::vector<size_t> told;
  bench.trainer.OnGradient([&](size_t v) {
    told.push_back(v);
    EXPECT_THAT(held, ::testing::Each(::testing::Property(
                          &Buffer::data, ::testing::Ne(bench.parameters.gradient_buffer().data()))));
  });
  for (const uint32_t size : {32u, 8u, 32u, 32u, 5u, 8u}) {
    SCOPED_TRACE(size);
    told.clear();
    const auto batch = std::span(data.order).first(size);
    const auto a = bench.trainer.Step(data.rows(), batch, size);
    const auto b = undisturbed.trainer.Step(data.rows(), batch, size);
    EXPECT_TRUE(a.finite);
    EXPECT_EQ(a.loss_sum, b.loss_sum);
    EXPECT_EQ(bench.Gradients(), undisturbed.Gradients()) << "in the memory that is theirs now";
    EXPECT_EQ(told.size(), bench.model.variables().size());
    for (size_t i = 0; i < held.size(); ++i) EXPECT_EQ(floats(held[i]), were[i]) << "of step " << i;
    // The last step finds its memory free.
    if (held.size() < 4) {
      held.push_back(bench.parameters.gradient_buffer());
      were.push_back(floats(held.back()));
    }
  }
  // Scores alone write no gradients, and leave those that are held where they are.
  held.push_back(bench.parameters.gradient_buffer());
  bench.trainer.Score(data.rows(), data.order, 32);
  EXPECT_EQ(bench.parameters.gradient_buffer().data(), held.back().data());
}

TEST(Trainer, AnEmptyBatchComputesNothing) {
  Bench bench(kTwoClasses, 4, ReferenceKernels());
  std::ranges::fill(bench.parameters.gradients(size_t{0}), 42.0f);
  for (const auto& outcome : {bench.trainer.Step({}, {}, 8), bench.trainer.Score({}, {}, 8)}) {
    EXPECT_EQ(outcome.events, 0u);
    EXPECT_EQ(outcome.loss_sum, 0);
    EXPECT_TRUE(outcome.finite);
  }
  EXPECT_THAT(bench.parameters.gradients(size_t{0}), ::testing::Each(42.0f));
  EXPECT_EQ(bench.trainer.scores_seen(), metrics::AucCounts());
}

// ---- scores

TEST_P(KernelsTest, ScoresAreThoseBeforeTheUpdate) {
  const TrainerData data(16, 4, 2);
  Bench bench(kTwoClasses, 4, Options());
  const auto first = bench.trainer.Score(data.rows(), data.order, 16);
  const auto before = bench.trainer.Step(data.rows(), data.order, 16);
  EXPECT_EQ(first.loss_sum, before.loss_sum);
  EXPECT_EQ(first.correct, before.correct);
  for (size_t v = 0; v < bench.model.variables().size(); ++v) {
    const auto g = bench.parameters.gradients(v);
    for (size_t i = 0; i < g.size(); ++i) bench.parameters.values(v)[i] -= 0.5f * g[i];
  }
  const auto after = bench.trainer.Step(data.rows(), data.order, 16);
  EXPECT_LT(after.loss_sum, before.loss_sum) << "a step downhill";
}

TEST_P(KernelsTest, ScoringLeavesTheGradientsAlone) {
  const TrainerData data(16, 4, 2);
  Bench bench(kTwoClasses, 4, Options());
  bench.trainer.Step(data.rows(), data.order, 16);
  const auto gradients = bench.Gradients();
  bench.trainer.Score(data.rows(), std::span(data.order).first(5), 16);
  EXPECT_EQ(bench.Gradients(), gradients);
}

TEST_P(KernelsTest, CorrectOnesAreCounted) {
  // The models have one feature; class 1 when it is positive.
  Bench two("{layers: [dense: {units: 2}], loss: softmax_cross_entropy}", 1, Options());
  const auto w = two.parameters.values(size_t{0});
  w[0] = -1;
  w[1] = 1;
  Bench one("{layers: [dense: {units: 1}], loss: sigmoid_cross_entropy}", 1, Options());
  one.parameters.values(size_t{0})[0] = 1;
  const std::vector<float> features{-2, -1, 1, 2, 3}, labels{0, 1, 1, 0, 1};
  const std::vector<uint32_t> batch{0, 1, 2, 3, 4};
  EXPECT_EQ(two.trainer.Step({features, labels, {}}, batch, 8).correct, 3u);
  EXPECT_EQ(one.trainer.Step({features, labels, {}}, batch, 8).correct, 3u);
  EXPECT_EQ(two.trainer.Step({features, labels, {}}, std::span(batch).first(1), 8).correct, 1u);

  Bench three("{layers: [dense: {units: 3}], loss: softmax_cross_entropy}", 3, Options());
  std::ranges::fill(three.parameters.values(size_t{0}), 0.0f);
  for (size_t i = 0; i < 3; ++i) three.parameters.values(size_t{0})[i * 3 + i] = 1;  // picks the largest
  const std::vector<float> triples{1, 0, 0, 0, 5, 1, 2, 3, 4}, classes{0, 1, 0};
  EXPECT_EQ(three.trainer.Step({triples, classes, {}}, std::span(batch).first(3), 3).correct, 2u);
}

TEST_P(KernelsTest, AucCountsAreThoseOfTheScoresAndTruths) {
  const TrainerData data(300, 4, 2);
  for (const char* yaml : {kTwoClasses, kOneProbability}) {
    Bench bench(yaml, 4, Options());
    metrics::AucCounts truths;
    for (size_t at = 0; at < data.order.size(); at += 64) {
      const auto batch = std::span(data.order).subspan(at, std::min<size_t>(64, data.order.size() - at));
      bench.trainer.Step(data.rows(/*with_truth=*/true), batch, 64);
    }
    for (size_t i = 0; i < data.labels.size(); ++i) truths.Add(data.truth[i], data.labels[i] == 1);
    EXPECT_EQ(bench.trainer.truths_seen(), truths);
    const auto& scores = bench.trainer.scores_seen();
    EXPECT_EQ(scores.positives(), truths.positives());
    EXPECT_EQ(scores.negatives(), truths.negatives());

    // The same by the definition: pairs won, over single rows scored by themselves.
    std::vector<double> score;
    for (uint32_t i : data.order) {
      const double loss = Bench(yaml, 4, ReferenceKernels()).trainer.Score(data.rows(), {&i, 1}, 1).loss_sum;
      score.push_back(data.labels[i] == 1 ? std::exp(-loss) : 1 - std::exp(-loss));
    }
    double won = 0, pairs = 0;
    for (size_t i = 0; i < score.size(); ++i) {
      for (size_t j = 0; j < score.size(); ++j) {
        if (data.labels[i] != 1 || data.labels[j] != 0) continue;
        won += score[i] > score[j] ? 1 : score[i] == score[j] ? 0.5 : 0;
        ++pairs;
      }
    }
    EXPECT_NEAR(scores.Auc(), won / pairs, 0.01);
  }
}

TEST(Trainer, WithoutTruthOrTwoClassesNothingIsCounted) {
  const TrainerData data(20, 4, 2);
  Bench bench(kTwoClasses, 4, ReferenceKernels());
  bench.trainer.Step(data.rows(), data.order, 20);
  EXPECT_EQ(bench.trainer.truths_seen(), metrics::AucCounts());
  EXPECT_NE(bench.trainer.scores_seen(), metrics::AucCounts());
  const TrainerData five(20, 4, 5);
  Bench many(kManyClasses, 4, ReferenceKernels());
  many.trainer.Step(five.rows(true), five.order, 20);
  EXPECT_EQ(many.trainer.scores_seen(), metrics::AucCounts());
  EXPECT_EQ(many.trainer.truths_seen(), metrics::AucCounts());
}

// ---- infinities and NaN

TEST_P(KernelsTest, ABatchWhoseGradientsAreNotFiniteIsSeenAndNotScored) {
  for (const char* yaml : {kTwoClasses, kNumber,
                           "{layers: [dense: {units: 6, activation: relu}, dense: {units: 1}], "
                           "loss: sigmoid_cross_entropy}"}) {
    SCOPED_TRACE(yaml);
    TrainerData data(8, 4, yaml == kNumber ? 0 : 2);
    Bench bench(yaml, 4, Options());
    const TrainerData tame = data;
    EXPECT_TRUE(bench.trainer.Step(tame.rows(true), tame.order, 8).finite);
    const auto scores = bench.trainer.scores_seen(), truths = bench.trainer.truths_seen();
    for (size_t i = 0; i < 4; ++i) data.features[i] = i % 2 == 0 ? 3e38f : -3e38f;  // the first row
    const auto outcome = bench.trainer.Step(data.rows(true), data.order, 8);
    EXPECT_FALSE(outcome.finite);
    EXPECT_EQ(outcome.events, 8u);
    EXPECT_EQ(outcome.loss_sum, 0);
    EXPECT_EQ(outcome.correct, 0u);
    EXPECT_EQ(bench.trainer.scores_seen(), scores);
    EXPECT_EQ(bench.trainer.truths_seen(), truths) << "both look at the same events";
    EXPECT_TRUE(bench.trainer.Step(tame.rows(), tame.order, 8).finite) << "nothing of it stays";
  }
}

TEST(Trainer, KernelsThatAreMissingAreNamed) {
  const TrainerData data(8, 4, 2);
  engine::PlanOptions none;
  Bench bench(kTwoClasses, 4, none);
  try {
    bench.trainer.Step(data.rows(), data.order, 8);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("dense"));
  }
}

// ---- clipping

TEST_P(KernelsTest, GradientsAreClippedToTheNorm) {
  const TrainerData data(16, 5, 5);
  Bench plain(kManyClasses, 5, Options()), clipped(kManyClasses, 5, Options());
  Trainer trainer(clipped.model, clipped.parameters, Options(), {.norm = 0.5f});
  plain.trainer.Step(data.rows(), data.order, 16);
  EXPECT_TRUE(trainer.Step(data.rows(), data.order, 16).finite);
  const auto whole = plain.Gradients(), cut = clipped.Gradients();
  double norm = 0;
  for (const float g : whole) norm += double{g} * g;
  norm = std::sqrt(norm);
  ASSERT_GT(norm, 0.5);
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(cut[i], whole[i] * 0.5 / norm, 1e-6);
}

// A running mean that is not finite once would stay so.
TEST_P(KernelsTest, ABatchWithAStatisticThatIsNotFiniteIsNotScored) {
  const std::string model =
      "{layers: [dense: {units: 3}, batch_norm, dense: {units: 1}], loss: {type: squared_error}}";
  for (const optim::Clipping& clipping : {optim::Clipping{}, optim::Clipping{.norm = 1}}) {
    Bench bench(model, 2, Options());
    const auto& variables = bench.model.variables();
    const auto statistic = static_cast<size_t>(
        std::ranges::find(variables, optim::VariableRole::kStatistic, &optim::VariableSpec::role) -
        variables.begin());
    ASSERT_LT(statistic, variables.size());
    Trainer trainer(bench.model, bench.parameters, Options(), clipping);
    const TrainerData data(8, 2, 0);
    EXPECT_TRUE(trainer.Step(data.rows(), data.order, 8).finite);
    bench.parameters.values(statistic)[0] = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(trainer.Step(data.rows(), data.order, 8).finite);
  }
}

// ---- moments

TEST_P(KernelsTest, WordsOfMomentsThatLookLikeNanRejectNoBatch) {
  const auto model =
      nn::Model::FromConfig(Config::Parse(kNumber, "job.yaml"), {.features = 2, .running = {0}});
  for (const optim::Clipping& clipping : {optim::Clipping{}, optim::Clipping{.norm = 1}}) {
    protocol::Parameters parameters(TableOf(model));
    for (size_t v = 0; v < model.variables().size(); ++v) {
      const auto& spec = model.variables()[v];
      optim::Initialise(spec.init, 1, spec.name, 0, parameters.values(v));
    }
    Trainer trainer(model, parameters, Options(), clipping);
    // Random bits are no finite number in one word of 256.
    bool seen = false;
    for (uint64_t seed = 0; seed < 10'000 && !seen; ++seed) {
      const TrainerData data(3, 2, 0, seed);
      const auto outcome = trainer.Step(data.rows(), data.order, 3);
      ASSERT_TRUE(outcome.finite);
      ASSERT_TRUE(parameters.GradientsFinite());
      for (const float word : parameters.gradients(size_t{0})) seen = seen || !std::isfinite(word);
    }
    EXPECT_TRUE(seen);
  }
}

// ---- predictions

const char* const kWithDropout =
    "{layers: [dense: {units: 6, activation: relu}, dropout: {rate: 0.5}, dense: {units: 2}], "
    "loss: softmax_cross_entropy}";
const char* const kWithBatchNorm =
    "{layers: [dense: {units: 6}, batch_norm: {}, dense: {units: 1}], loss: sigmoid_cross_entropy}";

TEST_P(KernelsTest, PredictionsAreTheScoresBeforeTheUpdate) {
  for (const auto& [yaml, classes, width] :
       {std::tuple(kTwoClasses, 2u, 1u), {kOneProbability, 2u, 1u}, {kManyClasses, 5u, 5u}}) {
    const TrainerData data(16, 4, classes);
    Bench bench(yaml, 4, Options()), other(yaml, 4, Options());
    const auto batch = std::span(data.order).first(11);
    bench.trainer.Step(data.rows(), batch, 16);
    const auto stepped = bench.trainer.predictions();
    ASSERT_EQ(stepped.size(), 11 * width) << yaml;
    other.trainer.Predict(data.rows(), batch, 16);
    const auto predicted = other.trainer.predictions();
    ASSERT_EQ(predicted.size(), stepped.size());
    for (size_t i = 0; i < stepped.size(); ++i) {
      EXPECT_NEAR(stepped[i], predicted[i], 1e-6) << yaml;
      EXPECT_TRUE(stepped[i] > 0 && stepped[i] < 1);
    }
    EXPECT_EQ(other.trainer.scores_seen(), metrics::AucCounts()) << "nothing is counted";
    bench.trainer.Step(data.rows(), {}, 16);
    EXPECT_EQ(bench.trainer.predictions().size(), 0u);
  }
}

TEST_P(KernelsTest, AModelThatDiffersInTrainingIsScoredByInference) {
  EXPECT_FALSE(Make(kTwoClasses, 4).differs_in_training());
  for (const char* const yaml : {kWithDropout, kWithBatchNorm}) {
    const TrainerData data(32, 4, 2);
    Bench usual(yaml, 4, Options()), inference(yaml, 4, Options()), scored(yaml, 4, Options());
    ASSERT_TRUE(usual.model.differs_in_training()) << yaml;
    inference.trainer.ScoreByInference();
    usual.trainer.Step(data.rows(), data.order, 32, 5);
    const auto outcome = inference.trainer.Step(data.rows(), data.order, 32, 5);
    EXPECT_EQ(usual.Gradients(), inference.Gradients()) << yaml << ": training is the same";
    const auto alone = scored.trainer.Score(data.rows(), data.order, 32);
    EXPECT_EQ(outcome.loss_sum, alone.loss_sum) << yaml;
    EXPECT_TRUE(std::ranges::equal(inference.trainer.predictions(), scored.trainer.predictions())) << yaml;
    EXPECT_FALSE(std::ranges::equal(usual.trainer.predictions(), scored.trainer.predictions())) << yaml;
    EXPECT_EQ(inference.trainer.scores_seen(), scored.trainer.scores_seen()) << yaml;
  }
}

TEST_P(KernelsTest, WhatIsPreparedIsCompiledOnceAndComputesTheSame) {
  for (const bool by_inference : {false, true}) {
    const TrainerData data(32, 4, 2);
    Bench lazy(kWithDropout, 4, Options()), prepared(kWithDropout, 4, Options());
    if (by_inference) {
      lazy.trainer.ScoreByInference();
      prepared.trainer.ScoreByInference();
    }
    const uint32_t plans = by_inference ? 2 : 1;
    EXPECT_EQ(prepared.trainer.plans(), 0u);
    prepared.trainer.Prepare(32);
    EXPECT_EQ(prepared.trainer.plans(), plans);
    const auto first = lazy.trainer.Step(data.rows(), data.order, 32, 5);
    EXPECT_EQ(prepared.trainer.Step(data.rows(), data.order, 32, 5).loss_sum, first.loss_sum);
    EXPECT_EQ(prepared.Gradients(), lazy.Gradients());
    prepared.trainer.Prepare(32);
    EXPECT_EQ(prepared.trainer.plans(), plans) << "nothing is compiled twice";
    EXPECT_EQ(lazy.trainer.plans(), plans);
    prepared.trainer.Prepare(16);
    EXPECT_EQ(prepared.trainer.plans(), 2 * plans);
  }
}

}  // namespace
}  // namespace leat::step
