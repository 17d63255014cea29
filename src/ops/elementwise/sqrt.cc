#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Sqrt::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // y = √x: dx = dy / 2y.
  const Value y{node.index, 0};
  return {graph.Make<Div>({*output_grads[0], graph.Make<Scale>({y}, 2.0f)})};
}

}  // namespace leat::ops
