// Matrix products and convolutions in bf16: half the memory traffic and at least twice the arithmetic
// throughput.
#pragma once

#include "compute/graph/pass.h"
#include "compute/ops/op.h"

namespace leat::ops {

// A pass that rounds the operands of matmul, dense, batch_matmul and convolutions to bf16. Sums, results and
// all other values stay f32, including variables. Each value is rounded once for all its readers. Run it
// last, after gradients and fusions.
//
// `least` is the smallest product that is worth rounding: both sides of the result have at least `least`
// elements, or a convolution has at least `least` filters and `least` / 2 channels.
graph::Pass UseBf16(int64_t least = 32);

}  // namespace leat::ops
