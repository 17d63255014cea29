// Element types. Networks compute in f32; matrix products may take bf16 inputs; the others hold data and
// indices. Conversions between them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

namespace leat {

enum class DType : uint8_t { kF32 = 0, kI32 = 1, kI64 = 2, kU8 = 3, kBf16 = 4 };

// bfloat16: the upper half of an f32, with 1 sign, 8 exponent and 7 fraction bits.
struct Bf16 {
  uint16_t bits = 0;
};

// Bytes of one element.
constexpr size_t SizeOf(DType type) {
  constexpr size_t kSizes[] = {4, 4, 8, 1, 2};
  return kSizes[static_cast<size_t>(type)];
}

constexpr std::string_view Name(DType type) {
  constexpr std::string_view kNames[] = {"f32", "i32", "i64", "u8", "bf16"};
  return kNames[static_cast<size_t>(type)];
}

// The DType of a C++ type.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> : std::integral_constant<DType, DType::kF32> {};
template <>
struct DTypeOf<int32_t> : std::integral_constant<DType, DType::kI32> {};
template <>
struct DTypeOf<int64_t> : std::integral_constant<DType, DType::kI64> {};
template <>
struct DTypeOf<uint8_t> : std::integral_constant<DType, DType::kU8> {};
template <>
struct DTypeOf<Bf16> : std::integral_constant<DType, DType::kBf16> {};

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
