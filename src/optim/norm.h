// Norms of vectors of f32, and clipping by them.
//
// Sums are taken in double, element i always in lane i mod 16 and the lanes always in the same order: the
// same vector has the same norm, bit for bit, on every machine.
#pragma once

#include <cstddef>

namespace leat::optim {

inline constexpr size_t kNormLanes = 16;

// Adds the lanes, in their one order.
double SumOfLanes(const double* lanes);

// Σ x². Not finite exactly when an element is not: the square of the largest f32 is far from the largest
// double.
double SquaredNorm(const float* x, size_t n);

void Scale(float* x, size_t n, float factor);
// Cuts each element to [-limit, limit].
void Clamp(float* x, size_t n, float limit);

// What is done to the gradients of a batch before they are used, 0 meaning nothing.
struct Clipping {
  float value = 0;  // each element is cut to [-value, value], first
  float norm = 0;   // then all together are scaled to this norm where theirs is above it
  bool any() const { return value > 0 || norm > 0; }
  friend bool operator==(const Clipping&, const Clipping&) = default;
};

// The factor that clipping to `limit` takes where the norm of all gradients together is `norm` (Pascanu et
// al. 2013): limit / (norm + 1e-6), at most 1, as PyTorch's clip_grad_norm_ has it.
float ClipFactor(double norm, float limit);

}  // namespace leat::optim
