// Element types of products.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// The first two inputs of a product are both f32 or both bf16, the others f32. Sums and results are f32
// either way. A network is differentiated in f32, before UseBf16: operands in bf16 have no gradient. Throws
// std::invalid_argument with the types.
void CheckOperands(Types inputs);

}  // namespace leat::ops
