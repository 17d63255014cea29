#include "train/step/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>

#include "base/rng.h"
#include "compute/kernels/cpu/table.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/passes.h"
#include "compute/optim/init.h"
#include "compute/optim/moments.h"

namespace leat::step {
namespace {

using protocol::StrategyConfig;
using protocol::StrategyKind;

engine::PlanOptions FastKernels(int threads = 1) {
  engine::PlanOptions options;
  options.tables = {&cpu::Table(), &reference::Kernels()};
  options.passes = ops::StandardPasses();
  options.inter_op_threads = threads;
  options.inline_below_us = 0;
  return options;
}

optim::OptimizerConfig Sgd(float rate) {
  optim::OptimizerConfig config;
  config.learning_rate = rate;
  return config;
}
StrategyConfig Downpour(uint32_t n_push, uint32_t n_fetch) {
  StrategyConfig strategy;
  strategy.kind = StrategyKind::kDownpour;
  strategy.n_push = n_push;
  strategy.n_fetch = n_fetch;
  return strategy;
}
StrategyConfig Averaging(uint32_t period) {
  StrategyConfig strategy;
  strategy.kind = StrategyKind::kAveraging;
  strategy.period = period;
  return strategy;
}

constexpr uint32_t kWidth = 4;
constexpr uint32_t kBatch = 8;

// A model with parameters drawn from a seed, and a RunTrainer for it.
struct Rig {
  explicit Rig(const std::string& yaml, const engine::PlanOptions& options = FastKernels(),
               const std::vector<uint32_t>& running = {})
      : model(
            nn::Model::FromConfig(Config::Parse(yaml, "job.yaml"), {.features = kWidth, .running = running})),
        parameters(protocol::MakeSlices({model.variables().begin(), model.variables().end()}, 1, 2)),
        trainer(model, parameters, options) {
    for (size_t v = 0; v < model.variables().size(); ++v) {
      const auto& spec = model.variables()[v];
      optim::Initialise(spec.init, 1, spec.name, 0, parameters.values(v));
    }
  }
  std::vector<float> Values() const { return Copy(parameters.all_values()); }
  std::vector<float> Gradients() const { return Copy(parameters.all_gradients()); }
  void Set(const std::vector<float>& values) { std::ranges::copy(values, parameters.all_values().begin()); }
  static std::vector<float> Copy(std::span<const float> x) { return {x.begin(), x.end()}; }

  nn::Model model;
  protocol::Parameters parameters;
  Trainer trainer;
};

struct RunData {
  explicit RunData(uint32_t rows = 256) : features(size_t{rows} * kWidth), labels(rows), order(rows) {
    Rng rng(2);
    for (auto& x : features) x = static_cast<float>(rng.Normal());
    for (auto& y : labels) y = static_cast<float>(rng.Below(2));
    std::iota(order.begin(), order.end(), 0u);
  }
  Rows rows() const { return {.features = features, .labels = labels, .truth = {}}; }
  std::span<const uint32_t> Batch(uint32_t i, uint32_t size = kBatch) const {
    return std::span(order).subspan(size_t{i} * size % order.size(), size);
  }
  std::vector<float> features, labels;
  std::vector<uint32_t> order;
};

const char* const kModel =
    "{layers: [dense: {units: 6, activation: tanh}, dense: {units: 2}], loss: softmax_cross_entropy}";

// The reference: the gradient of each of `batches`, with a step of sgd after each.
struct ByHand {
  ByHand(Rig& rig, const RunData& data, std::span<const uint32_t> batches, float rate) {
    for (uint32_t i : batches) {
      rig.trainer.Step(data.rows(), data.Batch(i), kBatch);
      gradients.push_back(rig.Gradients());
      auto values = rig.Values();
      for (size_t k = 0; k < values.size(); ++k) values[k] -= rate * gradients.back()[k];
      rig.Set(values);
    }
    end = rig.Values();
  }
  std::vector<std::vector<float>> gradients;
  std::vector<float> end;
};

TEST(RunTrainer, OneBatchIsItsGradient) {
  const RunData data;
  Rig plain(kModel), rig(kModel);
  plain.trainer.Step(data.rows(), data.Batch(0), kBatch);
  for (const StrategyKind kind : {StrategyKind::kAsync, StrategyKind::kSync, StrategyKind::kAllReduce}) {
    StrategyConfig strategy;
    strategy.kind = kind;
    RunTrainer runs(rig.trainer, rig.parameters, strategy, Sgd(0.5f));
    const auto before = rig.Values();
    EXPECT_EQ(runs.Step(data.rows(), data.Batch(0), kBatch, 0, {}).events, kBatch);
    EXPECT_EQ(rig.Gradients(), plain.Gradients());
    EXPECT_EQ(rig.Values(), before);
  }
}

TEST(RunTrainer, DownpourPushesTheSumAndStepsByItself) {
  const RunData data;
  Rig plain(kModel), rig(kModel);
  RunTrainer runs(rig.trainer, rig.parameters, Downpour(3, 7), Sgd(0.1f));
  for (const uint32_t first : {0u, 3u}) {  // nothing of a run is in the next
    const std::vector<uint32_t> batches{first, first + 1, first + 2};
    const ByHand hand(plain, data, batches, 0.1f);
    for (uint32_t i = 0; i < 3; ++i) {
      runs.Step(data.rows(), data.Batch(first + i), kBatch, 0, {.first = i == 0, .last = i == 2});
    }
    const auto pushed = rig.Gradients(), values = rig.Values();
    for (size_t k = 0; k < pushed.size(); ++k) {
      EXPECT_NEAR(pushed[k], hand.gradients[0][k] + hand.gradients[1][k] + hand.gradients[2][k], 1e-6);
      EXPECT_NEAR(values[k], hand.end[k], 1e-6);
    }
  }
}

TEST(RunTrainer, LocalStepsAreMadeAtTheRateOfTheRun) {
  const RunData data;
  for (const bool averaging : {false, true}) {
    Rig plain(kModel), rig(kModel);
    RunTrainer runs(rig.trainer, rig.parameters, averaging ? Averaging(3) : Downpour(3, 7), Sgd(0.1f));
    const auto before = rig.Values();
    const ByHand hand(plain, data, std::vector<uint32_t>{0, 1, 2}, 0.25f);
    for (uint32_t i = 0; i < 3; ++i)
      runs.Step(data.rows(), data.Batch(i), kBatch, 0, {.first = i == 0, .last = i == 2, .rate = 2.5f});
    const auto pushed = rig.Gradients(), values = rig.Values();
    for (size_t k = 0; k < before.size(); ++k)
      EXPECT_NEAR(averaging ? before[k] - pushed[k] : values[k], hand.end[k], 1e-6);
  }
}

TEST(RunTrainer, WhatIsFetchedAfterEveryBatchNeedsNoLocalStep) {
  const RunData data;
  Rig rig(kModel);
  RunTrainer runs(rig.trainer, rig.parameters, Downpour(2, 1), Sgd(0.1f));
  const auto before = rig.Values();
  runs.Step(data.rows(), data.Batch(0), kBatch, 0, {.first = true, .last = false});
  EXPECT_EQ(rig.Values(), before);
}

TEST(RunTrainer, EmptyBatchesAreNothingInASum) {
  const RunData data;
  Rig plain(kModel), rig(kModel);
  RunTrainer runs(rig.trainer, rig.parameters, Downpour(4, 9), Sgd(0.1f));
  const std::vector<uint32_t> batches{0, 1};
  const ByHand hand(plain, data, batches, 0.1f);
  const auto none = std::span<const uint32_t>();
  runs.Step(data.rows(), none, kBatch, 0, {.first = true, .last = false});
  runs.Step(data.rows(), data.Batch(0), kBatch, 0, {.first = false, .last = false});
  runs.Step(data.rows(), data.Batch(1), kBatch, 0, {.first = false, .last = false});
  EXPECT_TRUE(runs.Step(data.rows(), none, kBatch, 0, {.first = false, .last = true}).finite);
  const auto pushed = rig.Gradients();
  for (size_t k = 0; k < pushed.size(); ++k)
    EXPECT_NEAR(pushed[k], hand.gradients[0][k] + hand.gradients[1][k], 1e-6);
}

TEST(RunTrainer, AveragingPushesWhatItHasChangedAndPutsItBack) {
  const RunData data;
  Rig plain(kModel), rig(kModel);
  RunTrainer runs(rig.trainer, rig.parameters, Averaging(3), Sgd(0.1f));
  const auto before = rig.Values();
  const std::vector<uint32_t> batches{0, 1, 2};
  const ByHand hand(plain, data, batches, 0.1f);
  for (int repeated = 0; repeated < 2; ++repeated) {
    for (uint32_t i = 0; i < 3; ++i)
      runs.Step(data.rows(), data.Batch(i), kBatch, 0, {.first = i == 0, .last = i == 2});
    EXPECT_EQ(rig.Values(), before);
    const auto pushed = rig.Gradients();
    for (size_t k = 0; k < pushed.size(); ++k) EXPECT_NEAR(pushed[k], before[k] - hand.end[k], 1e-6);
  }
}

// The claim that averaging is tested by: 200 steps of two lanes, period 1, against one worker.
TEST(RunTrainer, AveragingWithPeriodOneIsTheJointBatch) {
  const RunData data;
  constexpr float kRate = 0.2f;
  Rig joint(kModel), lanes(kModel);
  RunTrainer runs(lanes.trainer, lanes.parameters, Averaging(1), Sgd(kRate));
  for (uint32_t step = 0; step < 200; ++step) {
    joint.trainer.Step(data.rows(), data.Batch(step, 2 * kBatch), 2 * kBatch);
    optim::Apply(Sgd(kRate), joint.parameters.all_values(), joint.parameters.all_gradients(), {}, 1, 1);

    std::vector<float> sum(lanes.parameters.all_values().size());
    for (uint32_t lane = 0; lane < 2; ++lane) {
      runs.Step(data.rows(), data.Batch(2 * step + lane), kBatch, 0, {.version = step});
      for (size_t k = 0; k < sum.size(); ++k) sum[k] += lanes.parameters.all_gradients()[k];
    }
    for (float& x : sum) x *= 0.5f;
    optim::Apply(Sgd(1), lanes.parameters.all_values(), sum, {}, 1, 1);
  }
  double difference = 0, norm = 0;
  const auto a = joint.Values(), b = lanes.Values();
  for (size_t k = 0; k < a.size(); ++k) {
    difference += std::pow(double{a[k]} - b[k], 2);
    norm += std::pow(double{a[k]}, 2);
  }
  EXPECT_LE(std::sqrt(difference / norm), 1e-6);
}

TEST(RunTrainer, ABatchThatIsNotFiniteEndsItsRun) {
  RunData data;
  for (uint32_t row : data.Batch(1)) data.features[row * kWidth] = std::numeric_limits<float>::quiet_NaN();
  for (const bool averaging : {true, false}) {
    Rig rig(kModel), fresh(kModel);
    RunTrainer runs(rig.trainer, rig.parameters, averaging ? Averaging(3) : Downpour(3, 3), Sgd(0.1f));
    const auto before = rig.Values();
    EXPECT_TRUE(runs.Step(data.rows(), data.Batch(0), kBatch, 0, {.first = true, .last = false}).finite);
    const auto between = rig.Values();
    EXPECT_FALSE(runs.Step(data.rows(), data.Batch(1), kBatch, 0, {.first = false, .last = false}).finite);
    EXPECT_EQ(rig.Values(), averaging ? before : between);
    // The next run knows nothing of it.
    rig.Set(before);
    RunTrainer other(fresh.trainer, fresh.parameters, averaging ? Averaging(3) : Downpour(3, 3), Sgd(0.1f));
    for (uint32_t i = 2; i < 5; ++i) {
      const RunPart part{.first = i == 2, .last = i == 4};
      EXPECT_TRUE(runs.Step(data.rows(), data.Batch(i), kBatch, 0, part).finite);
      other.Step(data.rows(), data.Batch(i), kBatch, 0, part);
    }
    EXPECT_EQ(rig.Gradients(), fresh.Gradients());
  }
}

TEST(RunTrainer, ASumThatLeavesTheFiniteNumbersIsRejected) {
  RunData data;
  for (float& x : data.features) x = 1e19f;
  for (float& y : data.labels) y = -1e19f;  // each gradient about 2e38
  Rig rig("{layers: [dense: {units: 1}], loss: {type: squared_error, weight: 0.5}}");
  rig.Set(std::vector<float>(rig.Values().size()));
  RunTrainer runs(rig.trainer, rig.parameters, Downpour(4, 1), Sgd(0.1f));
  bool finite = true;
  for (uint32_t i = 0; i < 4; ++i) {
    const auto outcome = runs.Step(data.rows(), data.Batch(i), kBatch, 0, {.first = i == 0, .last = i == 3});
    if (i < 3) {
      EXPECT_TRUE(outcome.finite);
    } else {
      finite = outcome.finite;
    }
  }
  EXPECT_FALSE(finite);
}

TEST(RunTrainer, StatisticsMoveByWhatBatchesSay) {
  const char* const model =
      "{layers: [dense: {units: 3}, batch_norm, dense: {units: 2}], loss: softmax_cross_entropy}";
  const RunData data;
  Rig plain(model);

  const auto statistic = [&](Rig& rig, bool gradients) {
    std::vector<float> all;
    for (size_t v = 0; v < rig.model.variables().size(); ++v) {
      if (rig.model.variables()[v].role != optim::VariableRole::kStatistic) continue;
      const auto part = gradients ? rig.parameters.gradients(v) : rig.parameters.values(v);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  };
  const auto before = statistic(plain, false);
  // Equals one worker: each batch's change is subtracted unscaled, at any rate.
  for (uint32_t i = 0; i < 3; ++i) {
    plain.trainer.Step(data.rows(), data.Batch(i), kBatch);
    for (size_t v = 0; v < plain.model.variables().size(); ++v) {
      const auto rule = optim::RuleFor(Sgd(0.01f), plain.model.variables()[v]);
      optim::Apply(rule, plain.parameters.values(v), plain.parameters.gradients(v), {}, 1, 1);
    }
  }
  const auto after = statistic(plain, false);
  ASSERT_FALSE(after.empty());
  ASSERT_NE(after, before);
  for (const auto& strategy : {Averaging(3), Downpour(3, 5)}) {
    Rig rig(model);
    RunTrainer runs(rig.trainer, rig.parameters, strategy, Sgd(0.01f));
    for (uint32_t i = 0; i < 3; ++i)
      runs.Step(data.rows(), data.Batch(i), kBatch, 0, {.first = i == 0, .last = i == 2});
    const auto pushed = statistic(rig, true);
    for (size_t k = 0; k < pushed.size(); ++k) EXPECT_NEAR(pushed[k], before[k] - after[k], 1e-6);
  }
}

TEST(RunTrainer, LocalStepsArePlainSgdAtTheRateOfTheJob) {
  const RunData data;
  optim::OptimizerConfig adam = optim::Defaults(optim::Kind::kAdam);
  adam.learning_rate = 0.125f;
  adam.weight_decay = 0.5f;
  Rig rig(kModel), plain(kModel);
  RunTrainer runs(rig.trainer, rig.parameters, Averaging(1), adam);
  runs.Step(data.rows(), data.Batch(0), kBatch, 0, {});
  plain.trainer.Step(data.rows(), data.Batch(0), kBatch);
  const auto pushed = rig.Gradients(), gradient = plain.Gradients();
  for (size_t k = 0; k < pushed.size(); ++k) EXPECT_NEAR(pushed[k], 0.125f * gradient[k], 1e-6);

  optim::OptimizerConfig decayed = Sgd(0.125f);
  decayed.weight_decay = 0.5f;
  RunTrainer with_decay(rig.trainer, rig.parameters, Averaging(1), decayed);
  with_decay.Step(data.rows(), data.Batch(0), kBatch, 0, {});
  const auto both = rig.Gradients(), values = rig.Values();
  for (size_t k = 0; k < both.size(); ++k)
    EXPECT_NEAR(both[k], 0.125f * (gradient[k] + 0.5f * values[k]), 1e-6);
}

TEST(RunTrainer, TheScheduleGoesByTheStepsOfAll) {
  const RunData data;
  optim::OptimizerConfig job = Sgd(0.1f);
  job.schedule.warmup = 100;
  Rig rig(kModel), plain(kModel);
  RunTrainer runs(rig.trainer, rig.parameters, Averaging(4), job);
  runs.Step(data.rows(), data.Batch(0), kBatch, 0, {.first = true, .last = true, .version = 9});
  plain.trainer.Step(data.rows(), data.Batch(0), kBatch);
  const float rate = 0.1f * static_cast<float>(optim::ShareAt(job.schedule, 9 * 4 + 1));
  const auto pushed = rig.Gradients(), gradient = plain.Gradients();
  for (size_t k = 0; k < pushed.size(); ++k) EXPECT_NEAR(pushed[k], rate * gradient[k], 1e-6);
}

// ---- gradients while back-propagation still runs

const char* const kDeep =
    "{layers: [dense: {units: 16, activation: relu}, dense: {units: 16, activation: relu}, "
    "dense: {units: 16, activation: relu}, dense: {units: 2}], loss: softmax_cross_entropy}";

TEST(OnGradient, LastLayersComeFirstAndNoneBeforeItIsWritten) {
  const RunData data;
  Rig plain(kDeep), rig(kDeep);
  plain.trainer.Step(data.rows(), data.Batch(0), kBatch);
  std::vector<size_t> told;
  std::ranges::fill(rig.parameters.all_gradients(), 42.0f);
  std::vector<size_t> still_unwritten;  // variables without gradients at the first call
  rig.trainer.OnGradient([&](size_t v) {
    const auto now = rig.parameters.gradients(v), expected = plain.parameters.gradients(v);
    EXPECT_TRUE(std::ranges::equal(now, expected)) << "variable " << v;
    if (told.empty()) {
      for (size_t other = 0; other < rig.model.variables().size(); ++other) {
        if (rig.parameters.gradients(other)[0] == 42.0f) still_unwritten.push_back(other);
      }
    }
    told.push_back(v);
  });
  EXPECT_TRUE(rig.trainer.Step(data.rows(), data.Batch(0), kBatch).finite);
  const size_t variables = rig.model.variables().size();
  ASSERT_EQ(told.size(), variables);
  // Weights and biases of a layer in any order, layers from last to first.
  for (size_t i = 0; i < told.size(); ++i) EXPECT_EQ(told[i] / 2, (variables - 1 - i) / 2) << i;
  EXPECT_GE(still_unwritten.size(), variables - 2) << "it came while the others were still to be computed";

  // Other batch sizes are other plans; an empty batch has no gradient; and it ends.
  told.clear();
  rig.trainer.Step(data.rows(), {}, kBatch);
  EXPECT_TRUE(told.empty());
  rig.trainer.OnGradient([&](size_t v) { told.push_back(v); });
  rig.trainer.Step(data.rows(), data.Batch(0, 3), 3);
  rig.trainer.Step(data.rows(), data.Batch(0), kBatch);
  EXPECT_EQ(told.size(), 2 * variables);
  rig.trainer.OnGradient(nullptr);
  rig.trainer.Step(data.rows(), data.Batch(0), kBatch);
  EXPECT_EQ(told.size(), 2 * variables);
}

TEST(OnGradient, WithSeveralThreadsAllComeAtTheEnd) {
  const RunData data;
  Rig plain(kDeep), rig(kDeep, FastKernels(2));
  plain.trainer.Step(data.rows(), data.Batch(0), kBatch);
  std::vector<size_t> told;
  const auto caller = std::this_thread::get_id();
  rig.trainer.OnGradient([&](size_t v) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    const auto now = rig.parameters.gradients(v), expected = plain.parameters.gradients(v);
    EXPECT_TRUE(std::ranges::equal(now, expected));
    told.push_back(v);
  });
  rig.trainer.Step(data.rows(), data.Batch(0), kBatch);
  EXPECT_EQ(told.size(), rig.model.variables().size());
}

// ---- moments

void ExpectWords(std::span<const float> found, std::span<const float> expected) {
  ASSERT_EQ(found.size(), expected.size());
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size_bytes()), 0);
}

TEST(RunTrainer, PushesTheMomentsOfARunMergedInEachStrategy) {
  const RunData data;
  const std::vector<uint32_t> running{0, 3};
  for (const StrategyConfig& strategy : {Downpour(4, 7), Downpour(4, 1), Averaging(4)}) {
    Rig rig(kModel, FastKernels(), running), alone(kModel, FastKernels(), running);
    RunTrainer runs(rig.trainer, rig.parameters, strategy, Sgd(0.1f));
    const auto values = rig.parameters.values(size_t{0});
    const bool local = strategy.n_fetch > 1;
    for (const uint32_t first : {0u, 4u}) {
      std::vector<float> merged(values.size()), after(values.begin(), values.end());
      for (uint32_t i = first; i < first + 4; ++i) {
        const auto batch = i == first + 1 ? std::span<const uint32_t>() : data.Batch(i);
        const RunPart part{.first = i == first, .last = i == first + 3};
        ASSERT_TRUE(runs.Step(data.rows(), batch, kBatch, 0, part).finite);
        if (batch.empty()) continue;
        // The moments of a batch do not depend on the parameters.
        alone.trainer.Step(data.rows(), batch, kBatch);
        optim::MergeMoments(merged, alone.parameters.gradients(size_t{0}));
        if (local) optim::MergeMoments(after, alone.parameters.gradients(size_t{0}));
      }
      EXPECT_EQ(optim::GetMoments(merged, 1).count, 3 * kBatch);
      ExpectWords(rig.parameters.gradients(size_t{0}), merged);
      ExpectWords(values, after);
    }
  }
}

TEST(RunTrainer, ARunThatIsNotFiniteLeavesMomentsAsTheyWere) {
  RunData data;
  data.features[5 * kWidth] = std::numeric_limits<float>::quiet_NaN();
  Rig rig(kModel, FastKernels(), {0});
  RunTrainer runs(rig.trainer, rig.parameters, Averaging(2), Sgd(0.1f));
  const std::vector<float> before(optim::kMomentWords);
  EXPECT_FALSE(runs.Step(data.rows(), data.Batch(0), kBatch, 0, {.first = true, .last = false}).finite);
  ExpectWords(rig.parameters.values(size_t{0}), before);
  // The next run has only its own.
  ASSERT_TRUE(runs.Step(data.rows(), data.Batch(1), kBatch, 0, {.first = true, .last = true}).finite);
  EXPECT_EQ(optim::GetMoments(rig.parameters.gradients(size_t{0}), 0).count, kBatch);
}

}  // namespace
}  // namespace leat::step
