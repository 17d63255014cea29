#include "ops/activation/activation.h"

namespace leat::ops {

InputGrads LeakyRelu::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<LeakyReluGrad>({node.inputs[0], *output_grads[0]}, slope)};
}

InputGrads LeakyReluGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // The gradient is constant in x wherever it is differentiable.
  return {std::nullopt, graph.Make<LeakyReluGrad>({node.inputs[0], *output_grads[0]}, slope)};
}

}  // namespace leat::ops
