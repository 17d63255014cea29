// Derivatives of a fused op through the plain ops that it replaces.
//
// A fused op has its own gradient op for ordinary training. For all other derivatives (second derivatives,
// and gradients with respect to auxiliary outputs) it is rewritten in plain ops, which are then
// differentiated.
#pragma once

#include <functional>
#include <vector>

#include "compute/ops/op.h"

namespace leat::ops {

// Adds plain ops that compute the outputs of the op from `inputs`, which have the types of the node's inputs.
using Composition = std::function<std::vector<Value>(Graph& graph, const std::vector<Value>& inputs)>;

// An implementation of Op::Gradient for an op equivalent to `compose`: a gradient for each f32 input.
InputGrads ComposedGradient(Graph& graph, const Node& node, OutputGrads output_grads,
                            const Composition& compose);

}  // namespace leat::ops
