#include "ops/elementwise/arithmetic.h"

#include "ops/shape/broadcast.h"

namespace leat::ops {

InputGrads Div::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // y = a / b: da = dy / b, db = -dy y / b.
  const Value a = node.inputs[0], b = node.inputs[1], y{node.index, 0}, dy = *output_grads[0];
  const Value quotient = graph.Make<Div>({dy, b});
  const Value db = graph.Make<Neg>({graph.Make<Mul>({quotient, y})});
  return {ReduceToShape(graph, quotient, graph.shape(a)), ReduceToShape(graph, db, graph.shape(b))};
}

}  // namespace leat::ops
