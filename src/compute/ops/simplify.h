// A pass that removes nodes without effect.
#pragma once

#include "compute/graph/pass.h"
#include "compute/ops/op.h"

namespace leat::ops {

// Removes x * 1, x / 1, x - 0, scaling by 1, sums of one term, double negation, and slices, pads, broadcasts,
// sums and concatenations that return their input. Merges chains of reshapes and of transposes; a transpose
// that moves only axes of size 1 becomes a reshape. Results are bitwise equal, except that a removed scaling
// may leave -0 where it would have returned 0. Nodes with control dependencies are kept.
graph::Rewrite Simplify(const Graph& graph, std::span<const Value> keep);

}  // namespace leat::ops
