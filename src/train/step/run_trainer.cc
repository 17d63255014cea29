#include "train/step/run_trainer.h"

#include <algorithm>

#include "base/multiversion.h"
#include "compute/optim/moments.h"

namespace leat::step {
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
