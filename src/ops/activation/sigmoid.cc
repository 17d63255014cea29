#include "ops/activation/activation.h"

#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Sigmoid::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<SigmoidGrad>({Value{node.index, 0}, *output_grads[0]})};
}

InputGrads SigmoidGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // z = dy y (1 - y): ∂z/∂y = dy (1 - 2y); with respect to dy it is the same function again.
  const Value y = node.inputs[0], dy = node.inputs[1], dz = *output_grads[0];
  const Value slope = graph.Make<Mul>({dy, graph.Make<Scale>({y}, -2.0f, 1.0f)});
  return {graph.Make<Mul>({dz, slope}), graph.Make<SigmoidGrad>({y, dz})};
}

}  // namespace leat::ops
