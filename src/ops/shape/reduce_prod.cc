#include "ops/shape/reduce_prod.h"

#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads ReduceProd::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0];
  const Value others = graph.Make<ProdOfOthers>({x}, axes);
  return {graph.Make<Mul>({SpreadBack(graph, x, *output_grads[0]), others})};
}

std::vector<TensorType> ProdOfOthers::Infer(Types inputs) const {
  ReduceOp::Infer(inputs);
  return {inputs[0]};
}

InputGrads ProdOfOthers::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // Without elements i and j the product is y_i / x_j: the sum of dy_i y_i over all i but j, divided by x_j.
  const Value x = node.inputs[0], y{node.index, 0};
  const Value terms = graph.Make<Mul>({*output_grads[0], y});
  const Value sum = SpreadBack(graph, x, graph.Make<ReduceSum>({terms}, axes, true));
  return {graph.Make<Div>({graph.Make<Sub>({sum, terms}), x})};
}

}  // namespace leat::ops
