#include "ops/elementwise/arithmetic.h"

#include "ops/elementwise/transcendental.h"
#include "ops/logic/logic.h"
#include "ops/shape/broadcast.h"

namespace leat::ops {

InputGrads Pow::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // y = a^b: da = dy b a^(b-1), db = dy y log a. Where b or y is 0 the derivative is 0, but the formula gives
  // 0 · ∞.
  const Value a = node.inputs[0], b = node.inputs[1], y{node.index, 0}, dy = *output_grads[0];
  const Value zero = graph.Make<Constant>({}, 0.0f);
  const Value lower = graph.Make<Pow>({a, graph.Make<Scale>({b}, 1.0f, -1.0f)});
  const Value by_a = graph.Make<Where>(
      {graph.Make<Equal>({b, zero}), zero, graph.Make<Mul>({dy, graph.Make<Mul>({b, lower})})});
  const Value by_b = graph.Make<Where>({graph.Make<Equal>({y, zero}), zero,
                                        graph.Make<Mul>({dy, graph.Make<Mul>({y, graph.Make<Log>({a})})})});
  return {ReduceToShape(graph, by_a, graph.shape(a)), ReduceToShape(graph, by_b, graph.shape(b))};
}

InputGrads Power::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0], dy = *output_grads[0];
  if (exponent == 0) return {std::nullopt};
  if (exponent == 1) return {dy};
  if (exponent == 2) return {graph.Make<Mul>({dy, graph.Make<Scale>({x}, 2.0f)})};
  const Value slope = graph.Make<Scale>({graph.Make<Power>({x}, exponent - 1)}, exponent);
  const Value dx = graph.Make<Mul>({dy, slope});
  if (exponent < 0 || exponent > 1) return {dx};
  const Value zero = graph.Make<Constant>({}, 0.0f);
  return {graph.Make<Where>({graph.Make<Equal>({x, zero}), zero, dx})};
}

}  // namespace leat::ops
