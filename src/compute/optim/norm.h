// Norms of f32 vectors, and gradient clipping.
//
// Sums are computed in double. Element i is added to lane i mod 16, and lanes are added in a fixed order, so
// the norm of a vector is bitwise equal on every machine. All functions are thread-safe.
#pragma once

#include <cstddef>

namespace leat::optim {

inline constexpr size_t kNormLanes = 16;

// Adds the kNormLanes lanes in the fixed order.
double SumOfLanes(const double* lanes);

// Σ x². Finite if and only if all elements are, since squares of f32 cannot overflow a double.
double SquaredNorm(const float* x, size_t n);

void Scale(float* x, size_t n, float factor);
// Clamps each element to [-limit, limit].
void Clamp(float* x, size_t n, float limit);

// Gradient clipping of a batch; 0 means off.
struct Clipping {
  float value = 0;  // first, each element is clamped to [-value, value]
  float norm = 0;   // then, all gradients together are scaled down to this norm if they exceed it
  bool any() const { return value > 0 || norm > 0; }
  friend bool operator==(const Clipping&, const Clipping&) = default;
};

// The factor that clips gradients of total norm `norm` to `limit` (Pascanu et al. 2013): limit / (norm +
// 1e-6), at most 1, as in PyTorch's clip_grad_norm_.
float ClipFactor(double norm, float limit);

}  // namespace leat::optim
