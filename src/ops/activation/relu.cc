#include "ops/activation/activation.h"

namespace leat::ops {

InputGrads Relu::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<ReluGrad>({Value{node.index, 0}, *output_grads[0]})};
}

InputGrads ReluGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // The gradient is constant in y wherever it is differentiable.
  return {std::nullopt, graph.Make<ReluGrad>({node.inputs[0], *output_grads[0]})};
}

}  // namespace leat::ops
