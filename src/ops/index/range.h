// Evenly spaced numbers.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// A constant of `count` elements from `start` on, `step` apart, as i32, i64 or f32; whole numbers wrap
// around. Throws std::invalid_argument on a negative count, one that no tensor can have, and other types.
Value Range(Graph& graph, int64_t start, int64_t count, int64_t step = 1, DType type = DType::kI64);

}  // namespace leat::ops
