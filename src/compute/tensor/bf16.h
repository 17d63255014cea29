// Conversion between bf16 and f32. Rounds to nearest, ties to even; NaN stays NaN.
#pragma once

#include <bit>
#include <cstdint>

#include "compute/tensor/dtype.h"

namespace leat {

inline float ToFloat(Bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

inline Bf16 ToBf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  // Dropping the low bits of a NaN could leave an infinity, so set a fraction bit.
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace leat
