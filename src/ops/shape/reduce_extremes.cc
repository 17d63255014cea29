#include "ops/shape/reduce_extremes.h"

#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/cast.h"
#include "ops/logic/logic.h"

namespace leat::ops {

std::vector<TensorType> ReduceExtreme::Infer(Types inputs) const {
  std::vector<TensorType> types = ReduceOp::Infer(inputs);
  CheckNotEmpty("extreme", inputs[0].shape, types[0].shape);
  return types;
}

InputGrads ReduceExtreme::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0], y = SpreadBack(graph, x, {node.index, 0});
  const Value chosen = graph.Make<Cast>({graph.Make<Equal>({x, y})});
  const Value count = graph.Make<ReduceSum>({chosen}, axes, keep_dims);
  const Value share = graph.Make<Div>({*output_grads[0], count});
  return {graph.Make<Mul>({chosen, SpreadBack(graph, x, share)})};
}

}  // namespace leat::ops
