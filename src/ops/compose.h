// Derivatives of a fused op by way of the plain ops that it stands for.
//
// A fused op brings a gradient op of its own for the one way that training takes. For every other way (the
// gradient of that gradient, gradients by outputs that are there for the gradient alone) it says what it
// computes in plain ops, and those are differentiated.
#pragma once

#include <functional>
#include <vector>

#include "ops/op.h"

namespace leat::ops {

// Outputs of the op over `inputs`, which are of the types of the node's.
using Composition = std::function<std::vector<Value>(Graph& graph, const std::vector<Value>& inputs)>;

// What Op::Gradient returns for a node that computes what `compose` does: a gradient for each f32 input.
InputGrads ComposedGradient(Graph& graph, const Node& node, OutputGrads output_grads,
                            const Composition& compose);

}  // namespace leat::ops
