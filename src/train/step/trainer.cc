#include "train/step/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/multiversion.h"
#include "compute/optim/moments.h"

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

// ---- runs of batches

namespace {

// The optimizer of a worker's local updates.
optim::OptimizerConfig LocalRule(const optim::OptimizerConfig& job) {
  if (job.kind == optim::Kind::kSgd) return job;
  optim::OptimizerConfig local;
  local.learning_rate = job.learning_rate;
  local.schedule = job.schedule;
  return local;
}

LEAT_MULTIVERSION void Add(const float* x, float* sum, size_t n) {
  for (size_t i = 0; i < n; ++i) sum[i] += x[i];
}

LEAT_MULTIVERSION void Subtract(const float* a, const float* b, float* difference, size_t n) {
  for (size_t i = 0; i < n; ++i) difference[i] = a[i] - b[i];
}

}  // namespace

RunTrainer::RunTrainer(Trainer& trainer, protocol::Parameters& parameters,
                       const protocol::StrategyConfig& strategy, const optim::OptimizerConfig& optimizer)
    : trainer_(trainer), parameters_(parameters), strategy_(strategy) {
  if (!strategy_.local_steps()) return;
  for (const auto& variable : parameters_.table().variables)
    rules_.push_back(optim::RuleFor(LocalRule(optimizer), variable));
  moments_variable_ = protocol::MomentsVariable(parameters_.table());
  if (moments_variable_) moments_.resize(parameters_.gradients(*moments_variable_).size());
  kept_ = Buffer(parameters_.all_values().size_bytes());
}

StepOutcome RunTrainer::Step(const Rows& rows, std::span<const uint32_t> batch, uint32_t batch_size,
                             uint64_t random_seed, const RunPart& part) {
  if (part.first) {
    done_ = 0;
    any_ = false;
    std::ranges::fill(moments_, 0.0f);
  }
  StepOutcome outcome;
  switch (strategy_.kind) {
    case protocol::StrategyKind::kDownpour:
      outcome = StepOfSum(rows, batch, batch_size, random_seed, part);
      break;
    case protocol::StrategyKind::kAveraging:
      outcome = StepOfChange(rows, batch, batch_size, random_seed, part);
      break;
    default:
      outcome = trainer_.Step(rows, batch, batch_size, random_seed);
  }
  ++done_;
  return outcome;
}

StepOutcome RunTrainer::StepOfSum(const Rows& rows, std::span<const uint32_t> batch, uint32_t batch_size,
                                  uint64_t random_seed, const RunPart& part) {
  StepOutcome outcome = trainer_.Step(rows, batch, batch_size, random_seed);
  if (!outcome.finite) return outcome;
  const auto gradients = parameters_.all_gradients();
  const std::span<float> sum(reinterpret_cast<float*>(kept_.data()), gradients.size());
  const bool has = !batch.empty();
  // If values are fetched after every batch, a local update would be overwritten at once.
  if (has && strategy_.n_fetch > 1) LocalStep(part.version + 1, part.rate);
  if (has) KeepMoments();
  if (!part.last) {
    if (has && any_) Add(gradients.data(), sum.data(), sum.size());
    if (has && !any_) std::ranges::copy(gradients, sum.begin());
    any_ = any_ || has;
  } else if (any_) {
    if (has) {
      Add(sum.data(), gradients.data(), sum.size());
    } else {
      std::ranges::copy(sum, gradients.begin());
    }
    PutMoments();
    outcome.finite = parameters_.GradientsFinite();
  }
  return outcome;
}

StepOutcome RunTrainer::StepOfChange(const Rows& rows, std::span<const uint32_t> batch, uint32_t batch_size,
                                     uint64_t random_seed, const RunPart& part) {
  const auto values = parameters_.all_values();
  const std::span<float> before(reinterpret_cast<float*>(kept_.data()), values.size());
  if (part.first) std::ranges::copy(values, before.begin());
  StepOutcome outcome = trainer_.Step(rows, batch, batch_size, random_seed);
  if (outcome.finite) {
    if (!batch.empty()) {
      LocalStep(part.version * strategy_.period + done_ + 1, part.rate);
      KeepMoments();
    }
    if (!part.last) return outcome;
    Subtract(before.data(), values.data(), parameters_.all_gradients().data(), values.size());
    PutMoments();
    outcome.finite = parameters_.GradientsFinite();
  }
  std::ranges::copy(before, values.begin());
  return outcome;
}

void RunTrainer::LocalStep(uint64_t step, float rate) {
  const auto& variables = parameters_.table().variables;
  for (size_t v = 0; v < rules_.size(); ++v) {
    if (variables[v].role == optim::VariableRole::kMoments) {
      optim::MergeMoments(parameters_.values(v), parameters_.gradients(v));
      continue;
    }
    const bool trained = variables[v].role == optim::VariableRole::kTrained;
    optim::Apply(rules_[v], parameters_.values(v), parameters_.gradients(v), {}, step, trained ? rate : 1.0f);
  }
}

// Adds those of the batch that has just been computed to the run's.
void RunTrainer::KeepMoments() {
  if (moments_variable_) optim::MergeMoments(moments_, parameters_.gradients(*moments_variable_));
}

// Words of moments cannot be added or subtracted, so the run's moments replace the sums of words.
void RunTrainer::PutMoments() {
  if (moments_variable_) std::ranges::copy(moments_, parameters_.gradients(*moments_variable_).begin());
}

}  // namespace leat::step
