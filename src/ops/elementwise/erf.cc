#include "ops/elementwise/transcendental.h"

#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Erf::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // 2/√π e^-x².
  constexpr float kSlope = 1.12837917f;
  const Value square = graph.Make<Square>({node.inputs[0]});
  const Value bell = graph.Make<Exp>({graph.Make<Neg>({square})});
  return {graph.Make<Mul>({*output_grads[0], graph.Make<Scale>({bell}, kSlope)})};
}

}  // namespace leat::ops
