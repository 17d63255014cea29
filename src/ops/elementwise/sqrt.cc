#include "ops/elementwise/arithmetic.h"

#include "ops/logic/logic.h"

namespace leat::ops {

InputGrads Sqrt::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // y = √x: dx = dy / 2y.
  const Value y{node.index, 0};
  const Value zero = graph.Make<Constant>({}, 0.0f);
  const Value slope = graph.Make<Div>({*output_grads[0], graph.Make<Scale>({y}, 2.0f)});
  return {graph.Make<Where>({graph.Make<Equal>({y, zero}), zero, slope})};
}

}  // namespace leat::ops
