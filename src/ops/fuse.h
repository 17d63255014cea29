// Passes that know ops: patterns of nodes that one kernel computes faster.
#pragma once

#include "graph/pass.h"
#include "ops/op.h"

namespace leat::ops {

// matmul → bias_add → (relu | sigmoid | tanh)? becomes Dense, where nobody else needs what lies between.
// Gradients of the activations start from its output, so a training graph fuses as well as a predicting one.
graph::Rewrite FuseDense(const Graph& graph, std::span<const Value> keep);

// The passes that any plan should have, in order: common subexpressions, then fusions.
std::vector<graph::Pass> StandardPasses();

}  // namespace leat::ops
