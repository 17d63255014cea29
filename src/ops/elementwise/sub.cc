#include "ops/elementwise/arithmetic.h"

#include "ops/shape/broadcast.h"

namespace leat::ops {

InputGrads Sub::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value dy = *output_grads[0];
  const Value db = ReduceToShape(graph, dy, graph.shape(node.inputs[1]));
  return {ReduceToShape(graph, dy, graph.shape(node.inputs[0])), graph.Make<Neg>({db})};
}

}  // namespace leat::ops
