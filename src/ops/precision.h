// Products in bf16 (row G9): half the bytes to read, and twice the products an instruction or more.
#pragma once

#include "graph/pass.h"
#include "ops/op.h"

namespace leat::ops {

// A pass that computes matmul, dense and batch_matmul from operands rounded to bf16, where both sides of the
// result have at least `least` elements: a smaller product gains less than rounding its operands takes. Sums,
// results, and everything else stay f32, variables among it: what is trained are their f32 values. Each value
// is rounded once, whoever reads it. It goes last, behind gradients and fusions.
graph::Pass UseBf16(int64_t least = 32);

}  // namespace leat::ops
