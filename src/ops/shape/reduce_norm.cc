#include "ops/shape/reduce_norm.h"

#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/transcendental.h"
#include "ops/logic/logic.h"

namespace leat::ops {

std::vector<TensorType> LogSumExp::Infer(Types inputs) const {
  std::vector<TensorType> types = ReduceOp::Infer(inputs);
  CheckNotEmpty("logarithm of a sum", inputs[0].shape, types[0].shape);
  return types;
}

InputGrads LogSumExp::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0], y = SpreadBack(graph, x, {node.index, 0});
  const Value share = graph.Make<Exp>({graph.Make<Sub>({x, y})});
  return {graph.Make<Mul>({SpreadBack(graph, x, *output_grads[0]), share})};
}

InputGrads ReduceL2::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0], y{node.index, 0};
  const Value zero = graph.Make<Constant>({}, 0.0f);
  const Value share =
      graph.Make<Where>({graph.Make<Equal>({y, zero}), zero, graph.Make<Div>({*output_grads[0], y})});
  return {graph.Make<Mul>({x, SpreadBack(graph, x, share)})};
}

}  // namespace leat::ops
