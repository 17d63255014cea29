// The mean of the gradients of one step: one code for servers and for workers that reduce among themselves.
//
// The lanes of a step are added in their order, as the chain ((g0 · w0 + g1 · w1) + g2 · w2) …, where w = e /
// f with e the events of each and f those of a full one, and the sum is scaled once, by f / Σ e. So a full
// lane, as nearly all are, is taken as it is. Lanes without events are left out. Each element's result
// depends on that element alone and nothing is contracted to fused multiply-add, so the mean comes out the
// same bit for bit whoever adds, in pieces of whatever size, on whichever x86-64.
//
// Where a step's gradients are to be added up (the loss is a sum), weights and scale are 1, but for
// statistics, whose changes are averaged all the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "optim/init.h"

namespace leat::optim {

struct MeanRule {
  bool sum = false;
  uint64_t full = 1;  // events of a full lane
  // At most 1, as no lane has more events than a full one.
  float weight(uint64_t events) const {
    return sum ? 1.0f : static_cast<float>(static_cast<double>(events) / static_cast<double>(full));
  }
  // Of all lanes' events, above 0.
  float scale(uint64_t events) const {
    return sum ? 1.0f : static_cast<float>(static_cast<double>(full) / static_cast<double>(events));
  }
};
inline MeanRule MeanRuleFor(bool sum, uint64_t full, VariableRole role) {
  return {sum && role != VariableRole::kStatistic, full};
}

// The sum of no lanes: adding it changes nothing, not even the sign of a zero.
inline constexpr float kNothing = -0.0f;

// sum = gradient · weight, of the first lane; sum += gradient · weight, of the others in their order. The
// spans have one size and do not overlap.
void SetWeighted(std::span<float> sum, std::span<const float> gradient, float weight);
void AddWeighted(std::span<float> sum, std::span<const float> gradient, float weight);
// sum = ((t0 + t1) + t2 …) · weight, of what each of the terms, at least one, has from `begin` on.
void SetSum(std::span<float> sum, std::span<const std::span<const float>> terms, size_t begin, float weight);
// A scale of 1 costs nothing.
void Scale(std::span<float> sum, float scale);

}  // namespace leat::optim
