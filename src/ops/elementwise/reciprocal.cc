#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Reciprocal::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // y = 1 / x: dx = -y² dy.
  const Value slope = graph.Make<Neg>({graph.Make<Square>({Value{node.index, 0}})});
  return {graph.Make<Mul>({*output_grads[0], slope})};
}

}  // namespace leat::ops
