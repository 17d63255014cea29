// The mean of the gradients of one step, shared by servers and by workers that all-reduce.
//
// Lanes are added in order: ((g0 · w0 + g1 · w1) + g2 · w2) … with the weight w = e / f of each lane, where e
// is the lane's number of events and f that of a full lane. The sum is then scaled once by f / Σ e. Most
// lanes are full and have the weight 1. Lanes without events are left out. Each element depends only on the
// same element of its inputs, and fused multiply-add is disabled, so the mean is bitwise equal for any
// process, any chunk size and any x86-64.
//
// If the gradients are summed (the loss reduction is a sum), weights and scale are 1. Updates of statistics
// are always averaged. All functions are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compute/optim/init.h"

namespace leat::optim {

struct MeanRule {
  bool sum = false;
  uint64_t full = 1;  // events of a full lane
  // The weight of a lane with this number of events, at most 1.
  float weight(uint64_t events) const {
    return sum ? 1.0f : static_cast<float>(static_cast<double>(events) / static_cast<double>(full));
  }
  // The factor on the sum, given the total number of events, which must be above 0.
  float scale(uint64_t events) const {
    return sum ? 1.0f : static_cast<float>(static_cast<double>(full) / static_cast<double>(events));
  }
};
inline MeanRule MeanRuleFor(bool sum, uint64_t full, VariableRole role) {
  return {sum && role == VariableRole::kTrained, full};
}

// The neutral element of addition: unlike +0, adding it preserves the sign of a zero.
inline constexpr float kNothing = -0.0f;

// SetWeighted: sum = gradient · weight, for the first lane. AddWeighted: sum += gradient · weight, for the
// others, in order. The spans have the same size and do not overlap.
void SetWeighted(std::span<float> sum, std::span<const float> gradient, float weight);
void AddWeighted(std::span<float> sum, std::span<const float> gradient, float weight);
// sum = ((t0 + t1) + t2 …) · weight, over elements [begin, begin + sum.size()) of each term. At least one
// term.
void SetSum(std::span<float> sum, std::span<const std::span<const float>> terms, size_t begin, float weight);
// sum *= scale. Returns immediately for a scale of 1.
void Scale(std::span<float> sum, float scale);

}  // namespace leat::optim
