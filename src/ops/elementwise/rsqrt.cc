#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Rsqrt::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // y = x^-½: dx = -½ y³ dy.
  const Value y{node.index, 0};
  const Value cube = graph.Make<Mul>({graph.Make<Square>({y}), y});
  return {graph.Make<Mul>({*output_grads[0], graph.Make<Scale>({cube}, -0.5f)})};
}

}  // namespace leat::ops
