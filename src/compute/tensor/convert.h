// Conversion between bf16 and f32.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "compute/tensor/dtype.h"

namespace leat {

// Conversion between bf16 and f32. Rounds to nearest, ties to even; NaN stays NaN.

inline float ToFloat(Bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

inline Bf16 ToBf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  // Dropping the low bits of a NaN could leave an infinity, so set a fraction bit.
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

// Conversion of one element to another type, with the semantics of ops::Cast: floats are truncated towards
// zero, out-of-range values are clamped, NaN becomes 0.

template <class To, class From>
To ConvertTo(From x) {
  if constexpr (std::is_same_v<From, Bf16>) {
    return ConvertTo<To>(ToFloat(x));
  } else if constexpr (std::is_same_v<To, Bf16>) {
    return ToBf16(static_cast<float>(x));
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(x);
  } else if constexpr (std::is_floating_point_v<From>) {
    // max() as f32 may round up beyond the range of To, hence >= below.
    constexpr auto kMin = static_cast<float>(std::numeric_limits<To>::lowest());
    constexpr auto kMax = static_cast<float>(std::numeric_limits<To>::max());
    if (x != x) return 0;
    if (x <= kMin) return std::numeric_limits<To>::lowest();
    if (x >= kMax) return std::numeric_limits<To>::max();
    return static_cast<To>(x);
  } else {
    constexpr auto kMin = static_cast<int64_t>(std::numeric_limits<To>::lowest());
    constexpr auto kMax = static_cast<int64_t>(std::numeric_limits<To>::max());
    const auto wide = static_cast<int64_t>(x);
    return static_cast<To>(wide < kMin ? kMin : wide > kMax ? kMax : wide);
  }
}

}  // namespace leat
