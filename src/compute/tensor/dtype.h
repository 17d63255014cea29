// Element types. Networks compute in f32; matrix products may take bf16 inputs; the others hold data and
// indices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace leat {

enum class DType : uint8_t { kF32 = 0, kI32 = 1, kI64 = 2, kU8 = 3, kBf16 = 4 };

// bfloat16: the upper half of an f32, with 1 sign, 8 exponent and 7 fraction bits.
struct Bf16 {
  uint16_t bits = 0;
};

// Bytes of one element.
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
