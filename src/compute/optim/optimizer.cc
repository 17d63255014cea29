#include "compute/optim/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/fields/word.h"
#include "compute/optim/update.h"

namespace leat::optim {

namespace {

// More than any training takes, and exact as a double.
constexpr int64_t kMaxSteps = int64_t{1} << 50;

uint64_t ReadSteps(const Config& config, std::string_view key, int64_t least) {
  config.At(key);  // fails if it is missing
  return static_cast<uint64_t>(config.Integer(key, 0, least, kMaxSteps));
}

}  // namespace

Schedule Schedule::FromConfig(const Config& config) {
  Schedule out;
  out.type = fields::FromWord<Type>(config.At("type"), "schedule");
  if (config.Has("warmup")) out.warmup = ReadSteps(config, "warmup", 0);
  switch (out.type) {
    case Type::kConstant:
      config.Allow({"type", "warmup"});
      return out;
    case Type::kStep:
    case Type::kExponential:
      config.Allow({"type", "warmup", "every", "factor"});
      out.every = ReadSteps(config, "every", 1);
      out.factor = config.Number("factor", 0.1, 0, 1);
      return out;
    case Type::kLinear:
    case Type::kCosine:
      config.Allow({"type", "warmup", "steps", "final"});
      out.steps = ReadSteps(config, "steps", 1);
      out.final = config.Number("final", 0, 0, 1);
      if (out.steps <= out.warmup) {
        config.Fail("steps is " + std::to_string(out.steps) + ", warmup is " + std::to_string(out.warmup) +
                    "; steps must be larger than warmup");
      }
      return out;
  }
  return out;
}

double ShareAt(const Schedule& schedule, uint64_t step) {
  using Type = Schedule::Type;
  LEAT_CHECK(step > 0);
  if (step <= schedule.warmup) return static_cast<double>(step) / static_cast<double>(schedule.warmup);
  const uint64_t since = step - 1 - schedule.warmup;
  if (schedule.type == Type::kConstant) return 1;
  if (schedule.type == Type::kStep) {
    return std::pow(schedule.factor, static_cast<double>(since / schedule.every));
  }
  if (schedule.type == Type::kExponential) {
    return std::pow(schedule.factor, static_cast<double>(since) / static_cast<double>(schedule.every));
  }
  const uint64_t span = schedule.steps - schedule.warmup;
  const double p = since >= span ? 1.0 : static_cast<double>(since) / static_cast<double>(span);
  const double left = schedule.type == Type::kLinear ? 1 - p : (1 + std::cos(std::numbers::pi * p)) / 2;
  return schedule.final + (1 - schedule.final) * left;
}

namespace {

struct KindRow {
  std::vector<std::string_view> slots;     // slots that every optimizer of the kind keeps
  std::vector<std::string_view> settings;  // besides those of all kinds
};

const KindRow& Row(Kind kind) {
  static const std::array<KindRow, 8> kRows = {{
      {{}, {}},
      {{"velocity"}, {"momentum"}},
      {{"accumulator"}, {"epsilon", "initial_accumulator"}},
      {{"moment1", "moment2"}, {"beta1", "beta2", "epsilon"}},
      {{"velocity"}, {"momentum"}},
      {{"square"}, {"alpha", "epsilon", "momentum", "centered"}},
      {{"moment1", "moment2"}, {"beta1", "beta2", "epsilon"}},
      {{"moment1", "moment2"}, {"beta1", "beta2", "epsilon"}},
  }};
  const auto index = static_cast<size_t>(kind);
  LEAT_CHECK(index < kRows.size());
  return kRows[index];
}

// The largest value of any setting: far above any use.
constexpr double kMax = 1e6;
// A decay of 1 would never forget and divide adam's bias correction by zero.
constexpr double kMaxDecay = 0.9999999;

void Allow(const Config& config, Kind kind) {
  std::vector<std::string> known = {"type",          "learning_rate", "schedule",  "weight_decay",
                                    "decay_vectors", "clip_norm",     "clip_value"};
  known.insert(known.end(), Row(kind).settings.begin(), Row(kind).settings.end());
  config.Allow(known);
}

// Bias corrections of both moments, in double, since 1 - beta2^t loses precision in f32 for small t.
struct Corrections {
  Corrections(const OptimizerConfig& config, uint64_t step)
      : first(1.0 - std::pow(double{config.beta1}, static_cast<double>(step))),
        inverse_root_second(static_cast<float>(
            1.0 / std::sqrt(1.0 - std::pow(double{config.beta2}, static_cast<double>(step))))) {}
  double first;
  float inverse_root_second;
};

void ApplyAdam(const OptimizerConfig& config, std::span<float> values, const float* g,
               std::span<const std::span<float>> slots, uint64_t step, float rate) {
  const Corrections corrections(config, step);
  const bool decoupled = config.kind == Kind::kAdamW;
  UpdateAdam(values.data(), g, slots[0].data(), slots[1].data(), values.size(),
             {.rate = static_cast<float>(rate / corrections.first),
              .beta1 = config.beta1,
              .beta2 = config.beta2,
              .inverse_root_correction2 = corrections.inverse_root_second,
              .epsilon = config.epsilon,
              .decay = decoupled ? 0.0f : config.weight_decay,
              .keep = decoupled ? static_cast<float>(1.0 - double{rate} * config.weight_decay) : 1.0f});
}

void ApplyLamb(const OptimizerConfig& config, std::span<float> values, const float* g,
               std::span<const std::span<float>> slots, uint64_t step, float rate) {
  const Corrections corrections(config, step);
  const LambFactors factors{.beta1 = config.beta1,
                            .beta2 = config.beta2,
                            .inverse_correction1 = static_cast<float>(1.0 / corrections.first),
                            .inverse_root_correction2 = corrections.inverse_root_second,
                            .epsilon = config.epsilon,
                            .decay = config.weight_decay};
  const size_t n = values.size();
  const LambNorms squared = UpdateLambMoments(values.data(), g, slots[0].data(), slots[1].data(), n, factors);
  const double ratio = squared.weights > 0 && squared.direction > 0
                           ? std::sqrt(squared.weights) / std::sqrt(squared.direction)
                           : 1.0;
  UpdateLamb(values.data(), slots[0].data(), slots[1].data(), n, static_cast<float>(rate * ratio), factors);
}

}  // namespace

OptimizerConfig Defaults(Kind kind) {
  OptimizerConfig out;
  out.kind = kind;
  if (kind == Kind::kRmsprop) out.momentum = 0;
  if (kind == Kind::kAdam || kind == Kind::kAdamW || kind == Kind::kLamb) out.learning_rate = 0.001f;
  if (kind == Kind::kAdamW || kind == Kind::kLamb) out.weight_decay = 0.01f;
  if (kind == Kind::kLamb) out.epsilon = 1e-6f;
  return out;
}

OptimizerConfig FromConfig(const Config& config) {
  OptimizerConfig out = Defaults(fields::FromWord<Kind>(config.At("type"), "optimizer"));
  Allow(config, out.kind);
  const auto read = [&](std::string_view key, float& setting, double most) {
    setting = static_cast<float>(config.Number(key, setting, 0, most));
  };
  read("learning_rate", out.learning_rate, kMax);
  if (config.Has("schedule")) out.schedule = Schedule::FromConfig(config.At("schedule"));
  read("weight_decay", out.weight_decay, kMax);
  out.decay_vectors = config.Bool("decay_vectors", out.decay_vectors);
  read("momentum", out.momentum, kMaxDecay);
  read("alpha", out.alpha, kMaxDecay);
  out.centered = config.Bool("centered", out.centered);
  read("beta1", out.beta1, kMaxDecay);
  read("beta2", out.beta2, kMaxDecay);
  read("epsilon", out.epsilon, kMax);
  read("initial_accumulator", out.initial_accumulator, kMax);
  read("clip_norm", out.clipping.norm, kMax);
  read("clip_value", out.clipping.value, kMax);

  const bool divides = out.kind != Kind::kSgd && out.kind != Kind::kMomentum && out.kind != Kind::kNesterov;
  if (out.kind == Kind::kAdagrad && out.epsilon == 0 && out.initial_accumulator == 0) {
    // A gradient of exactly 0 in the first update would give 0 / 0.
    config.Fail("epsilon and initial_accumulator are both 0; adagrad would divide by zero");
  }
  if (divides && out.kind != Kind::kAdagrad && out.epsilon == 0) {
    config.Fail("epsilon is 0; " + std::string(Name(out.kind)) + " would divide by zero");
  }
  return out;
}

std::string_view Name(Kind kind) {
  return fields::NameOf(kind);
}

OptimizerConfig RuleFor(const OptimizerConfig& config, const VariableSpec& variable) {
  if (variable.role != VariableRole::kTrained) return {.kind = Kind::kSgd, .learning_rate = 1};
  OptimizerConfig rule = config;
  if (!config.decay_vectors && variable.shape.rank() < 2) rule.weight_decay = 0;
  return rule;
}

std::vector<std::string_view> SlotNames(const OptimizerConfig& config) {
  std::vector<std::string_view> names = Row(config.kind).slots;
  if (config.kind == Kind::kRmsprop && config.centered) names.push_back("mean");
  if (config.kind == Kind::kRmsprop && config.momentum > 0) names.push_back("velocity");
  LEAT_CHECK(names.size() <= kMaxSlots);
  return names;
}

float InitialSlot(const OptimizerConfig& config, size_t slot) {
  LEAT_CHECK(slot < SlotNames(config).size());
  return config.kind == Kind::kAdagrad ? config.initial_accumulator : 0.0f;
}

bool NeedsWholeVariables(const OptimizerConfig& config) {
  return config.kind == Kind::kLamb;
}

void Apply(const OptimizerConfig& config, std::span<float> values, std::span<const float> gradient,
           std::span<const std::span<float>> slots, uint64_t step, float scale) {
  const size_t n = values.size();
  LEAT_CHECK(step > 0);
  LEAT_CHECK(gradient.size() == n);
  for (const auto& slot : slots) LEAT_CHECK(slot.size() == n);
  float* w = values.data();
  const float* g = gradient.data();
  const auto rate =
      static_cast<float>(double{config.learning_rate} * ShareAt(config.schedule, step) * double{scale});
  const float decay = config.weight_decay;
  const auto keeps = [&](size_t count) { LEAT_CHECK(slots.size() == count); };
  switch (config.kind) {
    case Kind::kSgd:
      keeps(0);
      return UpdateSgd(w, g, n, rate, decay);
    case Kind::kMomentum:
      keeps(1);
      return UpdateMomentum(w, g, slots[0].data(), n, rate, config.momentum, decay);
    case Kind::kNesterov:
      keeps(1);
      return UpdateNesterov(w, g, slots[0].data(), n, rate, config.momentum, decay);
    case Kind::kAdagrad:
      keeps(1);
      return UpdateAdagrad(w, g, slots[0].data(), n, rate, config.epsilon, decay);
    case Kind::kRmsprop: {
      const bool moves = config.momentum > 0;
      keeps(1 + (config.centered ? 1 : 0) + (moves ? 1 : 0));
      return UpdateRmsprop(w, g, slots[0].data(), config.centered ? slots[1].data() : nullptr,
                           moves ? slots.back().data() : nullptr, n,
                           {.rate = rate,
                            .alpha = config.alpha,
                            .epsilon = config.epsilon,
                            .momentum = config.momentum,
                            .decay = decay});
    }
    case Kind::kAdam:
    case Kind::kAdamW:
      keeps(2);
      return ApplyAdam(config, values, g, slots, step, rate);
    case Kind::kLamb:
      keeps(2);
      return ApplyLamb(config, values, g, slots, step, rate);
  }
}

}  // namespace leat::optim
