// The optimized CPU backend: matrix products and convolutions use oneDNN, all other ops are vectorised loops,
// which are faster than a oneDNN primitive for element-wise ops on a batch.
#pragma once

#include "compute/graph/kernel.h"

namespace leat::cpu {

// Immutable; lives as long as the program. A kernel that does not support a shape leaves it to the next
// table. One result differs from the reference: relu in a dense layer or convolution turns NaN into 0, as in
// oneDNN. The gradient of the weights still becomes NaN, and no relu is fused behind an op that may make NaN
// (compute/ops/passes.h).
const graph::KernelTable& Table();

}  // namespace leat::cpu
