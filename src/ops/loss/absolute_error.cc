#include "ops/loss/absolute_error.h"

#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads AbsoluteError::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value sign = graph.Make<Sign>({graph.Make<Sub>({node.inputs[0], node.inputs[1]})});
  const Value dp = graph.Make<Mul>({*output_grads[0], sign});
  return {dp, graph.Make<Neg>({dp})};
}

}  // namespace leat::ops
