// Products in bf16: half the bytes to read, and twice the products an instruction or more.
#pragma once

#include "graph/pass.h"
#include "ops/op.h"

namespace leat::ops {

// A pass that computes matmul, dense, batch_matmul and convolutions from operands rounded to bf16, where both
// sides of the result have at least `least` elements (of a convolution, where it has as many filters and half
// as many channels): a smaller product gains less than rounding its operands takes. Sums, results, and
// everything else stay f32, variables among it: what is trained are their f32 values. Each value is rounded
// once, whoever reads it. It goes last, behind gradients and fusions.
graph::Pass UseBf16(int64_t least = 32);

}  // namespace leat::ops
