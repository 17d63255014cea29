#include "ops/elementwise/arithmetic.h"

#include "ops/shape/broadcast.h"

namespace leat::ops {

InputGrads Mul::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value a = node.inputs[0], b = node.inputs[1], dy = *output_grads[0];
  return {ReduceToShape(graph, graph.Make<Mul>({dy, b}), graph.shape(a)),
          ReduceToShape(graph, graph.Make<Mul>({dy, a}), graph.shape(b))};
}

}  // namespace leat::ops
