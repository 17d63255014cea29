// Running moments of features: count, mean and sum of squared deviations, as `scale: running` learns them.
//
// In a variable of the role kMoments and in what is pushed for it, the moments of n features take 6 n words
// of 32 bits: n counts (u64), then n means (f64), then n sums of squared deviations (f64), each little-endian
// in two words. The words have the type f32 only because all variables do; nothing computes with them. A
// batch pushes its own moments, and the update of the variable merges them. All functions are pure and
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace leat::optim {

inline constexpr size_t kMomentWords = 6;  // words of each feature

// Moments of one feature. All zeros: of no value.
struct Moments {
  uint64_t count = 0;
  double mean = 0;
  double m2 = 0;  // Σ (x - mean)²
  friend bool operator==(const Moments&, const Moments&) = default;
};

// The moments of the values of both (Chan, Golub and LeVeque 1983): with n = a.count + b.count and
// δ = b.mean - a.mean,
//   mean = a.mean + δ · b.count / n,  m2 = a.m2 + b.m2 + δ² · a.count · b.count / n.
// If one has no values, exactly the other. The last bits depend on the order.
Moments Merged(const Moments& a, const Moments& b);

// Reads or writes one feature. The number of words is a multiple of kMomentWords, and `feature` is among
// them.
Moments GetMoments(std::span<const float> words, size_t feature);
void PutMoments(std::span<float> words, size_t feature, const Moments& moments);

// words = Merged(words, more), feature by feature. The spans have the same size and do not overlap.
void MergeMoments(std::span<float> words, std::span<const float> more);

// Normalisation to mean 0 and variance m2 / count = 1: ((x - shift) - rest) · factor. Two numbers make up the
// mean, so that it is as exact as the difference. The factor is 0 as long as there is no deviation to divide
// by: for a count below 2, if all values are equal, or if they differ by less than f32 can express.
struct Scaling {
  float shift = 0, rest = 0, factor = 0;
};
Scaling ScalingOf(const Moments& moments);

}  // namespace leat::optim
