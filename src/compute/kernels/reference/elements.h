// Loops over the elements of a tensor of any type.
#pragma once

#include <array>
#include <span>

#include "compute/tensor/convert.h"
#include "compute/tensor/dtype.h"
#include "compute/tensor/shape.h"

namespace leat::reference {

// Dispatch on element types, for kernels that are one loop for any type.

// Calls f with a value of the C++ type of `type`.
template <class F>
auto WithType(DType type, F f) {
  switch (type) {
    case DType::kU8:
      return f(uint8_t{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kBf16:
      return f(Bf16{});
    case DType::kF32:
      break;
  }
  return f(float{});
}

// Calls f with a value of the index type, int32_t or int64_t.
template <class F>
auto WithIndexType(DType type, F f) {
  return type == DType::kI32 ? f(int32_t{}) : f(int64_t{});
}

// Iteration over all elements of a tensor with their indices, last axis fastest.

using Index = std::array<int64_t, Shape::kMaxRank>;

// f(position in row-major order, index along each axis)
template <class F>
void ForEach(const Shape& shape, F f) {
  Index at{};
  const auto n = static_cast<size_t>(shape.elements());
  for (size_t i = 0; i < n; ++i) {
    f(i, at);
    for (size_t axis = shape.rank(); axis-- > 0;) {
      if (++at[axis] < shape[axis]) break;
      at[axis] = 0;
    }
  }
}

inline size_t At(const Index& at, std::span<const int64_t> strides) {
  int64_t sum = 0;
  for (size_t i = 0; i < strides.size(); ++i) sum += at[i] * strides[i];
  return static_cast<size_t>(sum);
}

}  // namespace leat::reference
