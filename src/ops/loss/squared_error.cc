#include "ops/loss/squared_error.h"

#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads SquaredError::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value difference = graph.Make<Sub>({node.inputs[0], node.inputs[1]});
  const Value dp = graph.Make<Mul>({*output_grads[0], graph.Make<Scale>({difference}, 2.0f)});
  return {dp, graph.Make<Neg>({dp})};
}

}  // namespace leat::ops
