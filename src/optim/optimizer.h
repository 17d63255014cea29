// Updates of parameters from gradients: one code for servers and workers.
//
// An update is element-wise and a pure function of its arguments, so any part of a variable can be updated by
// itself, wherever it lives, with the same result.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"

namespace leat::optim {

enum class Kind : uint8_t { kSgd = 0, kMomentum = 1, kAdagrad = 2, kAdam = 3 };

struct OptimizerConfig {
  Kind kind = Kind::kSgd;
  float learning_rate = 0.01f;
  float momentum = 0.9f;             // momentum: decay of the velocity
  float beta1 = 0.9f;                // adam
  float beta2 = 0.999f;              // adam
  float epsilon = 1e-8f;             // adam, adagrad
  float initial_accumulator = 0.1f;  // adagrad
  friend bool operator==(const OptimizerConfig&, const OptimizerConfig&) = default;
};

// Reads the `optimizer:` section of a job: a map with `type` and the settings of that type, all others
// refused.
OptimizerConfig FromConfig(const Config& config);
std::string_view Name(Kind kind);

// Names of the state kept for each element besides its value: {} for sgd, {"velocity"}, {"accumulator"},
// {"moment1", "moment2"}.
std::vector<std::string_view> SlotNames(Kind kind);
// The value that a slot starts from.
float InitialSlot(const OptimizerConfig& config, size_t slot);

// Applies one gradient in place.
//   values, gradient, slots[i]: n elements each, none overlapping
//   step: updates of these elements so far, this one included (1 at the first); adam corrects its bias by it
//   scale: factor on the learning rate (staleness, schedules), 1 for none
// sgd: w -= lr g. momentum: v = m v + g, w -= lr v (Polyak 1964). adagrad: a += g², w -= lr g / (√a + ε)
// (Duchi et al. 2011). adam: Kingma and Ba 2015, bias-corrected.
void Apply(const OptimizerConfig& config, std::span<float> values, std::span<const float> gradient,
           std::span<const std::span<float>> slots, uint64_t step, float scale);

}  // namespace leat::optim
