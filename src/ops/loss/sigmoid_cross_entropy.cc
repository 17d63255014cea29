#include "ops/loss/sigmoid_cross_entropy.h"

#include "ops/activation/activation.h"
#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads SigmoidCrossEntropy::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0], t = node.inputs[1], dy = *output_grads[0];
  const Value dx = graph.Make<Mul>({dy, graph.Make<Sub>({graph.Make<Sigmoid>({x}), t})});
  return {dx, graph.Make<Neg>({graph.Make<Mul>({dy, x})})};
}

}  // namespace leat::ops
