// Iteration over all elements of a tensor with their indices, last axis fastest.
#pragma once

#include <array>
#include <span>

#include "compute/tensor/shape.h"

namespace leat::reference {

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
