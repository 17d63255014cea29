#include "ops/loss/sigmoid_cross_entropy.h"

#include "ops/elementwise/mul.h"
#include "ops/elementwise/neg.h"
#include "ops/elementwise/sigmoid.h"
#include "ops/elementwise/sub.h"

namespace leat::ops {

InputGrads SigmoidCrossEntropy::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0], t = node.inputs[1], dy = *output_grads[0];
  const Value dx = graph.Make<Mul>({dy, graph.Make<Sub>({graph.Make<Sigmoid>({x}), t})});
  return {dx, graph.Make<Neg>({graph.Make<Mul>({dy, x})})};
}

}  // namespace leat::ops
