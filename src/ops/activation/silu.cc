#include "ops/activation/activation.h"

#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Silu::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<SiluGrad>({node.inputs[0], *output_grads[0]})};
}

InputGrads SiluGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // ∂z/∂x = dy s (1 - s) (2 + x (1 - 2s)); with respect to dy it is the same function again.
  const Value x = node.inputs[0], dy = node.inputs[1], dz = *output_grads[0];
  const Value s = graph.Make<Sigmoid>({x});
  const Value bend = graph.Make<Mul>({x, graph.Make<Scale>({s}, -2.0f, 1.0f)});
  const Value outer = graph.Make<SigmoidGrad>({s, graph.Make<Mul>({dz, dy})});
  return {graph.Make<Mul>({outer, graph.Make<Scale>({bend}, 1.0f, 2.0f)}), graph.Make<SiluGrad>({x, dz})};
}

}  // namespace leat::ops
