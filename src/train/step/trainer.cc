#include "train/step/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace leat::step {

Trainer::Trainer(const nn::Model& model, protocol::Parameters& parameters, const engine::PlanOptions& options,
                 const optim::Clipping& clipping)
    : model_(model), parameters_(&parameters), options_(options), clipping_(clipping) {}

Trainer::Compiled& Trainer::For(uint32_t batch_size, bool training) {
  Compiled& made = compiled_[batch_size];
  Compiled::Half& half = training ? made.train : made.score;
  if (half.plan != nullptr) {
    BindGradients(half);
    return made;
  }

  nn::StepGraph step = model_.Build(batch_size, training);
  if (made.features.raw() == nullptr) {
    made.features = Tensor(step.graph.type(step.features));
    made.labels = Tensor(step.graph.type(step.labels));
    made.weights = Tensor(step.graph.type(step.weights));
    made.random_seed = Tensor(step.graph.type(step.random_seed));
  }
  std::vector<graph::Value> fetches{step.loss, step.scores};
  fetches.insert(fetches.end(), step.gradients.begin(), step.gradients.end());
  auto plan = engine::CompileMeasured(step.graph, fetches, options_);
  plan->Bind(step.features, made.features.raw());
  plan->Bind(step.labels, made.labels.raw());
  plan->Bind(step.weights, made.weights.raw());
  plan->Bind(step.random_seed, made.random_seed.raw());
  half = {std::move(step), std::move(plan), nullptr};
  ++plans_;
  BindValues(half);
  BindGradients(half);
  if (training) SetHooks(half);
  return made;
}

void Trainer::Prepare(uint32_t batch_size) {
  For(batch_size, true);
  if (by_inference_) For(batch_size, false);
}

void Trainer::UseParameters(protocol::Parameters& parameters) {
  parameters_ = &parameters;
  for (auto& [size, compiled] : compiled_) {
    for (Compiled::Half* half : {&compiled.train, &compiled.score}) {
      if (half->plan != nullptr) BindValues(*half);
    }
  }
}

void Trainer::BindValues(Compiled::Half& half) {
  for (size_t v = 0; v < half.step.variables.size(); ++v)
    half.plan->Bind(half.step.variables[v], parameters_->values(v).data());
}

void Trainer::BindGradients(Compiled::Half& half) {
  const float* const gradients = parameters_->all_gradients().data();
  if (half.gradients == gradients) return;
  half.gradients = gradients;
  for (size_t v = 0; v < half.step.gradients.size(); ++v)
    half.plan->Bind(half.step.gradients[v], parameters_->gradients(v).data());
}

// Each gradient is checked while it is still in the first-level cache, before the hook is called.
void Trainer::SetHooks(const Compiled::Half& half) {
  for (size_t v = 0; v < half.step.gradients.size(); ++v) {
    const bool numbers = model_.variables()[v].role != optim::VariableRole::kMoments;
    half.plan->OnFetch(half.step.gradients[v], [this, v, numbers] {
      if (numbers && !clipping_.any()) largest_ = std::max(largest_, parameters_->LargestGradient(v));
      if (on_gradient_) on_gradient_(v);
    });
  }
  if (track_ == nullptr) return;
  half.plan->OnFetch(half.step.loss, [this] {
    if (track_->on()) forward_end_ = MonotonicClock().Now();
  });
}

void Trainer::RunTraining(Compiled& compiled) {
  engine::Plan& plan = *compiled.train.plan;
  if (track_ == nullptr || !track_->on()) return plan.Run();
  const MonotonicClock clock;
  const Time begin = clock.Now();
  forward_end_ = Time{0};
  plan.Run();
  const Time end = clock.Now();
  // On several threads the loss is not told from the rest before the end.
  if (plan.threads() > 1 || forward_end_ == Time{0})
    return track_->Add({.kind = timeline::Kind::kStep, .begin = begin, .end = end});
  track_->Add({.kind = timeline::Kind::kForward, .begin = begin, .end = forward_end_});
  track_->Add({.kind = timeline::Kind::kBackward, .begin = forward_end_, .end = end});
}

void Trainer::Fill(Compiled& compiled, const Rows& rows, std::span<const uint32_t> batch) {
  const size_t width = model_.inputs(), each = model_.labels();
  const auto features = compiled.features.as<float>();
  const auto labels = compiled.labels.as<float>();
  const auto weights = compiled.weights.as<float>();
  for (size_t i = 0; i < batch.size(); ++i) {
    std::memcpy(&features[i * width], &rows.features[batch[i] * width], width * sizeof(float));
    if (rows.labels.empty()) continue;
    for (size_t l = 0; l < each; ++l) labels[i * each + l] = rows.labels[batch[i] * each + l];
  }
  // Padding has weight 0. The rows that a longer batch left there are cleared, because a row whose output is
  // infinite turns its weight of 0 into NaN.
  const auto filled = static_cast<uint32_t>(batch.size());
  if (filled < compiled.filled) {
    std::fill(features.begin() + filled * width, features.begin() + compiled.filled * width, 0.0f);
    std::fill(labels.begin() + filled * each, labels.begin() + compiled.filled * each, 0.0f);
  }
  if (filled != compiled.filled) {
    std::fill_n(weights.begin(), filled, 1.0f);
    std::fill(weights.begin() + filled, weights.end(), 0.0f);
    compiled.filled = filled;
  }
}

std::span<const float> Trainer::ScoresOf(const Compiled& compiled, const Compiled::Half& half, size_t rows) {
  const auto all = half.plan->At(half.step.scores).as<float>();
  return all.first(all.size() / static_cast<size_t>(compiled.weights.shape().elements()) * rows);
}

StepOutcome Trainer::Measure(const Compiled& compiled, const Compiled::Half& half, const Rows& rows,
                             std::span<const uint32_t> batch, bool finite) {
  StepOutcome outcome{.events = static_cast<uint32_t>(batch.size())};
  scores_ = ScoresOf(compiled, half, batch.size());
  const float loss = half.plan->At(half.step.loss).as<float>()[0];
  outcome.finite = finite && std::isfinite(loss);
  if (!outcome.finite) return outcome;
  outcome.loss_sum =
      model_.loss().reduction == nn::Reduction::kMean ? double{loss} * outcome.events : double{loss};
  const auto& scores = scores_;
  const auto labels = compiled.labels.as<float>().first(batch.size() * model_.labels());
  outcome.correct = nn::CountCorrect(model_, scores, labels);
  outcome.absolute_error = nn::AbsoluteError(model_, scores, labels);
  if (model_.task() == nn::Task::kBinary) {
    positive_.resize(labels.size());
    nn::PositiveScores(model_, scores, positive_);
    for (size_t i = 0; i < labels.size(); ++i) {
      const bool positive = labels[i] >= 0.5f;
      scores_seen_.Add(positive_[i], positive);
      if (!rows.truth.empty()) truths_seen_.Add(rows.truth[batch[i / model_.labels()]], positive);
    }
  }
  return outcome;
}

StepOutcome Trainer::Step(const Rows& rows, std::span<const uint32_t> batch, uint32_t batch_size,
                          uint64_t random_seed) {
  scores_ = {};
  if (batch.empty()) return {};
  parameters_->AcquireGradientBuffer();
  auto& compiled = For(batch_size, true);
  Fill(compiled, rows, batch);
  if (by_inference_) For(batch_size, false).score.plan->Run();
  compiled.random_seed.as<int64_t>()[0] = static_cast<int64_t>(random_seed);
  largest_ = 0;
  RunTraining(compiled);
  bool finite = clipping_.any() ? parameters_->Clip(clipping_) : std::isfinite(largest_);
  if (by_inference_)
    finite = finite && std::isfinite(compiled.train.plan->At(compiled.train.step.loss).as<float>()[0]);
  StepOutcome outcome =
      Measure(compiled, by_inference_ ? compiled.score : compiled.train, rows, batch, finite);
  outcome.overflow_safe = finite && !clipping_.any() && largest_ < kOverflowSafe;
  return outcome;
}

void Trainer::Predict(const Rows& rows, std::span<const uint32_t> batch, uint32_t batch_size) {
  scores_ = {};
  if (batch.empty()) return;
  auto& compiled = For(batch_size, false);
  Fill(compiled, rows, batch);
  compiled.score.plan->Run();
  scores_ = ScoresOf(compiled, compiled.score, batch.size());
}

std::span<const float> Trainer::predictions() {
  if (model_.task() != nn::Task::kBinary || scores_.empty()) return scores_;
  positive_.resize(scores_.size() / model_.outputs());
  nn::PositiveScores(model_, scores_, positive_);
  return positive_;
}

StepOutcome Trainer::Score(const Rows& rows, std::span<const uint32_t> batch, uint32_t batch_size) {
  scores_ = {};
  if (batch.empty()) return {};
  auto& compiled = For(batch_size, false);
  Fill(compiled, rows, batch);
  compiled.score.plan->Run();
  return Measure(compiled, compiled.score, rows, batch, true);
}

}  // namespace leat::step
