#include "train/learner/learner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/rng.h"
#include "compute/kernels/cpu/table.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/passes.h"

namespace leat {
namespace {

constexpr uint32_t kWidth = 6;

std::shared_ptr<const nn::Model> ModelOf(const std::string& layers, const std::string& loss,
                                         uint32_t width = kWidth) {
  return std::make_shared<const nn::Model>(nn::Model::FromConfig(
      Config::Parse("layers:\n" + layers + "loss: " + loss + "\n", "model"), {.features = width}));
}

const char* const kDense = "  - dense: {units: 16, activation: relu}\n  - dense: {units: 3}\n";

Learner::Options OptionsOf(std::shared_ptr<const nn::Model> model, optim::Kind kind = optim::Kind::kAdam) {
  Learner::Options options{.model = std::move(model), .optimizer = optim::Defaults(kind), .plan = {}};
  options.optimizer.learning_rate = 0.01f;
  options.plan.tables = {&cpu::Table(), &reference::Kernels()};
  options.plan.passes = ops::StandardPasses();
  options.batch_size = 32;
  return options;
}

// Rows whose class follows from their features.
struct Data {
  explicit Data(uint32_t rows, uint64_t seed = 1) : features(rows * kWidth), labels(rows) {
    Rng rng(seed);
    for (float& x : features) x = static_cast<float>(rng.Normal());
    for (uint32_t i = 0; i < rows; ++i) {
      const float* x = &features[i * kWidth];
      labels[i] = x[0] > 0.3f ? 2.0f : x[1] > 0 ? 1.0f : 0.0f;
    }
  }
  step::Rows rows() const { return {.features = features, .labels = labels, .truth = {}}; }
  std::vector<float> features, labels;
};

TEST(Learner, LearnsWhatTheRowsShow) {
  Learner learner(OptionsOf(ModelOf(kDense, "softmax_cross_entropy")));
  const Data data(640), held_out(500, 2);
  double first = 0, last = 0;
  for (int pass = 0; pass < 20; ++pass) {
    const auto outcome = learner.Learn(data.rows());
    EXPECT_EQ(outcome.events, 640u);
    EXPECT_TRUE(outcome.finite);
    last = outcome.loss_sum / outcome.events;
    if (pass == 0) first = last;
  }
  EXPECT_LT(last, first / 3);
  EXPECT_EQ(learner.steps(), 20u * 640 / 32);
  EXPECT_EQ(learner.events(), 20u * 640);

  std::vector<float> scores(500 * learner.scores_per_row());
  learner.Predict(held_out.features, scores);
  EXPECT_GT(nn::CountCorrect(learner.model(), scores, held_out.labels), 430u);
}

TEST(Learner, RefusesIdsThatAreInNoTable) {
  Learner learner(OptionsOf(ModelOf(
      "  - embedding: {size: 5, units: 3}\n  - flatten\n  - dense: {units: 1}\n", "squared_error", 2)));
  const auto before = learner.Save();
  std::vector<float> labels(40), scores(40), features(80, 4);
  const auto why = [&](const auto& call) -> std::string {
    try {
      call();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  const auto learn = [&] { learner.Learn({.features = features, .labels = labels, .truth = {}}); };
  const auto predict = [&] { learner.Predict(features, scores); };
  features[77] = 5;  // in the second batch
  const std::string text =
      "row 38, column 1: id 5 is not in the model's table of 5 rows; must be a whole number from 0 to 4";
  EXPECT_EQ(why(learn), text);
  EXPECT_EQ(why(predict), text);
  for (const float id : {-1.0f, NAN, INFINITY, 1e9f, 1.5f, 4.7f, -0.4f, 1e-20f}) {
    features[77] = id;
    EXPECT_NE(why(learn), "") << id;
  }
  features[77] = 3.9999998f;
  EXPECT_EQ(why(predict).find("row 38, column 1: id 3.9999998 is not"), 0u);
  EXPECT_EQ(learner.Save(), before);
  features[77] = 4;
  EXPECT_EQ(why(learn), "");
  EXPECT_EQ(why(predict), "");
}

// A step of one batch is a step of optim::Apply with its gradient.
TEST(Learner, StepsAsServersDo) {
  for (const auto kind : {optim::Kind::kSgd, optim::Kind::kAdam, optim::Kind::kLamb}) {
    const auto options = OptionsOf(ModelOf(kDense, "softmax_cross_entropy"), kind);
    Learner learner(options);
    const Data data(20);
    protocol::Parameters parameters(protocol::MakeWholeSlices(
        {options.model->variables().begin(), options.model->variables().end()}, options.seed));
    step::Trainer trainer(*options.model, parameters, options.plan);
    for (size_t v = 0; v < options.model->variables().size(); ++v)
      std::ranges::copy(learner.values(v), parameters.values(v).begin());
    std::vector<uint32_t> batch(20);
    for (uint32_t i = 0; i < 20; ++i) batch[i] = i;
    trainer.Step(data.rows(), batch, 20);
    learner.Learn(data.rows());
    for (size_t v = 0; v < options.model->variables().size(); ++v) {
      const auto rule = optim::RuleFor(options.optimizer, options.model->variables()[v]);
      std::vector<std::vector<float>> memory;
      std::vector<std::span<float>> slots;
      for (size_t s = 0; s < optim::SlotNames(rule).size(); ++s)
        memory.emplace_back(parameters.values(v).size(), optim::InitialSlot(rule, s));
      for (auto& slot : memory) slots.emplace_back(slot);
      optim::Apply(rule, parameters.values(v), parameters.gradients(v), slots, 1, 1);
      EXPECT_EQ(std::memcmp(parameters.values(v).data(), learner.values(v).data(),
                            parameters.values(v).size_bytes()),
                0);
    }
  }
}

TEST(Learner, ABatchThatIsNotFiniteChangesNothing) {
  Learner learner(OptionsOf(ModelOf(kDense, "softmax_cross_entropy")));
  Data data(64);
  learner.Learn(data.rows());
  const auto before = learner.Save();
  data.features[3] = std::numeric_limits<float>::infinity();
  const auto outcome = learner.Learn(data.rows());
  EXPECT_FALSE(outcome.finite);
  EXPECT_EQ(outcome.events, 32u);  // the other batch's
  EXPECT_EQ(learner.events(), 96u);
  Learner other(OptionsOf(ModelOf(kDense, "softmax_cross_entropy")));
  ASSERT_TRUE(other.Load(before, 2, 64).ok());
  const Data good(64);
  other.Learn({.features = std::span(good.features).subspan(32 * kWidth),
               .labels = std::span(good.labels).subspan(32),
               .truth = {}});
  EXPECT_EQ(other.Save(), learner.Save());
}

TEST(Learner, GoesOnFromWhatItSaved) {
  const auto options = OptionsOf(ModelOf(kDense, "softmax_cross_entropy"));
  Learner whole(options), first(options), second(options);
  const Data a(64, 3), b(64, 4);
  whole.Learn(a.rows());
  whole.Learn(b.rows());
  first.Learn(a.rows());
  ASSERT_TRUE(second.Load(first.Save(), first.steps(), first.events()).ok());
  second.Learn(b.rows());
  EXPECT_EQ(second.Save(), whole.Save());
  EXPECT_EQ(second.steps(), 4u);

  const std::vector<float> short_one(5);
  EXPECT_EQ(second.Load(short_one, 1, 1).code(), Code::kDataLoss);
  EXPECT_EQ(second.Save(), whole.Save());
}

// More sizes than there are plans: a padded batch has the scores of its rows.
TEST(Learner, PredictsAnyNumberOfRows) {
  Learner learner(OptionsOf(ModelOf(kDense, "softmax_cross_entropy")));
  const Data data(100);
  learner.Learn(data.rows());
  const uint32_t each = learner.scores_per_row();
  std::vector<float> all(100 * each);
  learner.Predict(data.features, all);
  for (uint32_t n = 1; n <= 40; ++n) {
    std::vector<float> some(n * each);
    learner.Predict(std::span(data.features).first(n * kWidth), some);
    for (uint32_t i = 0; i < n * each; ++i) EXPECT_NEAR(some[i], all[i], 1e-6) << n;
  }
  EXPECT_EQ(learner.events(), 100u);
}

// Estimators promise that the order of rows does not matter.
TEST(Learner, ARowHasTheSameScoresWhereverItIs) {
  auto options = OptionsOf(ModelOf(kDense, "softmax_cross_entropy"));
  options.batch_size = 256;
  for (const uint32_t rows : {2u, 6u, 7u, 13u, 20u, 33u, 50u, 100u}) {
    Learner learner(options);
    learner.Learn(Data(64).rows());
    const Data one(1, rows);
    std::vector<float> features;
    for (uint32_t i = 0; i < rows; ++i)
      features.insert(features.end(), one.features.begin(), one.features.end());
    std::vector<float> scores(rows * learner.scores_per_row());
    learner.Predict(features, scores);
    const size_t bytes = learner.scores_per_row() * sizeof(float);
    for (uint32_t i = 1; i < rows; ++i)
      ASSERT_EQ(std::memcmp(&scores[0], &scores[i * learner.scores_per_row()], bytes), 0) << rows << " " << i;
  }
}

TEST(Learner, StatisticsOfBatchNormAndRunningScaleFollow) {
  auto model = std::make_shared<const nn::Model>(nn::Model::FromConfig(
      Config::Parse(
          "layers:\n  - dense: {units: 8}\n  - batch_norm\n  - dense: {units: 1}\nloss: squared_error\n",
          "model"),
      {.features = kWidth, .running = {0, 2}}));
  Learner learner(OptionsOf(model));
  Data data(256);
  for (uint32_t i = 0; i < 256; ++i) {
    data.features[i * kWidth] = data.features[i * kWidth] * 1000 + 5000;
    data.labels[i] = data.features[i * kWidth + 1];
  }
  double last = 0;
  for (int pass = 0; pass < 30; ++pass) last = learner.Learn(data.rows()).loss_sum / 256;
  EXPECT_LT(last, 0.3);
  std::vector<float> scores(256);
  learner.Predict(data.features, scores);
  for (const float score : scores) EXPECT_TRUE(std::isfinite(score));
}

}  // namespace
}  // namespace leat
