#include "ops/activation/activation.h"

#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Tanh::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<TanhGrad>({Value{node.index, 0}, *output_grads[0]})};
}

InputGrads TanhGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // z = dy (1 - y²): ∂z/∂y = -2 y dy; with respect to dy it is the same function again.
  const Value y = node.inputs[0], dy = node.inputs[1], dz = *output_grads[0];
  const Value slope = graph.Make<Mul>({dy, graph.Make<Scale>({y}, -2.0f)});
  return {graph.Make<Mul>({dz, slope}), graph.Make<TanhGrad>({y, dz})};
}

}  // namespace leat::ops
