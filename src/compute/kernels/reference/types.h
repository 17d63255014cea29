// Dispatch on element types, for kernels that are one loop for any type.
#pragma once

#include "compute/tensor/bf16.h"
#include "compute/tensor/dtype.h"

namespace leat::reference {

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

}  // namespace leat::reference
