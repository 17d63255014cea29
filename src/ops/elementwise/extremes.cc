#include "ops/elementwise/arithmetic.h"

#include "ops/logic/logic.h"
#include "ops/shape/broadcast.h"

namespace leat::ops {

namespace {

// Passes dy to the input that was chosen.
InputGrads Choose(Graph& graph, const Node& node, Value first, Value dy) {
  const Value zero = graph.Make<Constant>({}, 0.0f);
  return {ReduceToShape(graph, graph.Make<Where>({first, dy, zero}), graph.shape(node.inputs[0])),
          ReduceToShape(graph, graph.Make<Where>({first, zero, dy}), graph.shape(node.inputs[1]))};
}

}  // namespace

InputGrads Minimum::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return Choose(graph, node, graph.Make<LessEqual>(node.inputs), *output_grads[0]);
}

InputGrads Maximum::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return Choose(graph, node, graph.Make<GreaterEqual>(node.inputs), *output_grads[0]);
}

}  // namespace leat::ops
