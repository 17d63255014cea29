#include "ops/activation/activation.h"

#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Elu::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<EluGrad>({node.inputs[0], *output_grads[0]}, alpha)};
}

InputGrads EluGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // With respect to x: alpha e^x below 0, else 0; with respect to dy: the same function again.
  const Value x = node.inputs[0], dy = node.inputs[1], dz = *output_grads[0];
  const Value both = graph.Make<Mul>({dz, dy});
  const Value bend =
      graph.Make<Sub>({graph.Make<EluGrad>({x, both}, alpha), graph.Make<ReluGrad>({x, both})});
  return {bend, graph.Make<EluGrad>({x, dz}, alpha)};
}

}  // namespace leat::ops
