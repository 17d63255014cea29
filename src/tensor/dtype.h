// Types of elements. f32 is what networks compute in, bf16 what their products may take in; the others come
// from and go to data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace leat {

enum class DType : uint8_t { kF32 = 0, kI32 = 1, kI64 = 2, kU8 = 3, kBf16 = 4 };

// The upper half of an f32: its sign, exponent and first 7 bits of fraction.
struct Bf16 {
  uint16_t bits = 0;
};

constexpr size_t SizeOf(DType type) {
  switch (type) {
    case DType::kF32:
      return 4;
    case DType::kI32:
      return 4;
    case DType::kI64:
      return 8;
    case DType::kU8:
      return 1;
    case DType::kBf16:
      return 2;
  }
  return 0;
}

constexpr std::string_view Name(DType type) {
  switch (type) {
    case DType::kF32:
      return "f32";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
    case DType::kU8:
      return "u8";
    case DType::kBf16:
      return "bf16";
  }
  return "?";
}

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<Bf16> {
  static constexpr DType value = DType::kBf16;
};

}  // namespace leat
