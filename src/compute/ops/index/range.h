// Evenly spaced numbers.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// A constant start, start + step, ... of `count` elements, as i32, i64 or f32. Integers wrap around on
// overflow. Throws std::invalid_argument if the count is negative or too large, or for any other type.
Value Range(Graph& graph, int64_t start, int64_t count, int64_t step = 1, DType type = DType::kI64);

}  // namespace leat::ops
