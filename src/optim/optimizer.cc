#include "optim/optimizer.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "base/check.h"
#include "optim/update.h"

namespace leat::optim {
namespace {

struct KindRow {
  std::string_view name;
  std::vector<std::string_view> slots;
};

const KindRow& Row(Kind kind) {
  static const std::array<KindRow, 4> kRows = {{
      {"sgd", {}},
      {"momentum", {"velocity"}},
      {"adagrad", {"accumulator"}},
      {"adam", {"moment1", "moment2"}},
  }};
  const auto index = static_cast<size_t>(kind);
  LEAT_CHECK(index < kRows.size());
  return kRows[index];
}

// The largest setting a job may ask for; finite in f32, and far above any use.
constexpr double kMost = 1e6;
// A decay of 1 would never forget and divide adam's bias correction by zero.
constexpr double kMostDecay = 0.9999999;

float Read(const Config& config, std::string_view key, float fallback, double least, double most) {
  return static_cast<float>(config.Number(key, fallback, least, most));
}

}  // namespace

OptimizerConfig FromConfig(const Config& config) {
  OptimizerConfig out;
  const std::string type = config.At("type").OneOf("optimizer", {"sgd", "momentum", "adagrad", "adam"});
  if (type == "sgd") {
    config.Allow({"type", "learning_rate"});
    out.kind = Kind::kSgd;
  } else if (type == "momentum") {
    config.Allow({"type", "learning_rate", "momentum"});
    out.kind = Kind::kMomentum;
    out.momentum = Read(config, "momentum", out.momentum, 0, kMostDecay);
  } else if (type == "adagrad") {
    config.Allow({"type", "learning_rate", "epsilon", "initial_accumulator"});
    out.kind = Kind::kAdagrad;
    out.epsilon = Read(config, "epsilon", out.epsilon, 0, kMost);
    out.initial_accumulator = Read(config, "initial_accumulator", out.initial_accumulator, 0, kMost);
    // With both at zero the first gradient that is exactly zero would make 0 / 0 of a weight.
    if (out.epsilon == 0 && out.initial_accumulator == 0) {
      config.Fail("epsilon and initial_accumulator are both 0; adagrad would divide by zero");
    }
  } else {
    config.Allow({"type", "learning_rate", "beta1", "beta2", "epsilon"});
    out.kind = Kind::kAdam;
    out.beta1 = Read(config, "beta1", out.beta1, 0, kMostDecay);
    out.beta2 = Read(config, "beta2", out.beta2, 0, kMostDecay);
    out.epsilon = Read(config, "epsilon", out.epsilon, 0, kMost);
    if (out.epsilon == 0) config.Fail("epsilon is 0; adam would divide by zero");
  }
  out.learning_rate = Read(config, "learning_rate", out.learning_rate, 0, kMost);
  return out;
}

std::string_view Name(Kind kind) {
  return Row(kind).name;
}

std::vector<std::string_view> SlotNames(Kind kind) {
  return Row(kind).slots;
}

float InitialSlot(const OptimizerConfig& config, size_t slot) {
  LEAT_CHECK(slot < Row(config.kind).slots.size());
  return config.kind == Kind::kAdagrad ? config.initial_accumulator : 0.0f;
}

void Apply(const OptimizerConfig& config, std::span<float> values, std::span<const float> gradient,
           std::span<const std::span<float>> slots, uint64_t step, float scale) {
  const size_t n = values.size();
  LEAT_CHECK(gradient.size() == n);
  LEAT_CHECK(slots.size() == Row(config.kind).slots.size());
  for (const auto& slot : slots) LEAT_CHECK(slot.size() == n);
  float* w = values.data();
  const float* g = gradient.data();
  const float rate = config.learning_rate * scale;
  switch (config.kind) {
    case Kind::kSgd:
      UpdateSgd(w, g, n, rate);
      return;
    case Kind::kMomentum:
      UpdateMomentum(w, g, slots[0].data(), n, rate, config.momentum);
      return;
    case Kind::kAdagrad:
      UpdateAdagrad(w, g, slots[0].data(), n, rate, config.epsilon);
      return;
    case Kind::kAdam: {
      LEAT_CHECK(step > 0);
      // In double: 1 - beta2^t loses all of its bits in f32 while t is small.
      const double t = static_cast<double>(step);
      const double correction1 = 1.0 - std::pow(static_cast<double>(config.beta1), t);
      const double correction2 = 1.0 - std::pow(static_cast<double>(config.beta2), t);
      UpdateAdam(w, g, slots[0].data(), slots[1].data(), n,
                 {.rate = static_cast<float>(rate / correction1),
                  .beta1 = config.beta1,
                  .beta2 = config.beta2,
                  .inverse_root_correction2 = static_cast<float>(1.0 / std::sqrt(correction2)),
                  .epsilon = config.epsilon});
      return;
    }
  }
}

}  // namespace leat::optim
