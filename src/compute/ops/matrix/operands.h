// Element types of matrix products and convolutions.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Throws std::invalid_argument unless the first two inputs are both f32 or both bf16, and the others f32.
// Sums and results are always f32. bf16 operands have no gradient: differentiate first, then apply UseBf16.
void CheckOperands(Types inputs);

}  // namespace leat::ops
