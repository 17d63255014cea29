#include "ops/elementwise/arithmetic.h"

#include "ops/shape/broadcast.h"

namespace leat::ops {

InputGrads Add::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value dy = *output_grads[0];
  return {ReduceToShape(graph, dy, graph.shape(node.inputs[0])),
          ReduceToShape(graph, dy, graph.shape(node.inputs[1]))};
}

}  // namespace leat::ops
