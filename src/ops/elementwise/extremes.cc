#include "ops/elementwise/arithmetic.h"

#include "ops/logic/logic.h"
#include "ops/shape/broadcast.h"

namespace leat::ops {

namespace {

// Passes dy to the input that was chosen: the first where `first` holds, half to each where both are equal.
InputGrads Choose(Graph& graph, const Node& node, Value first, Value dy) {
  const Value zero = graph.Make<Constant>({}, 0.0f);
  const Value equal = graph.Make<Equal>(node.inputs), half = graph.Make<Scale>({dy}, 0.5f);
  const auto share = [&](size_t i, Value by_first, Value by_second) {
    const Value chosen = graph.Make<Where>({first, by_first, by_second});
    return ReduceToShape(graph, graph.Make<Where>({equal, half, chosen}), graph.shape(node.inputs[i]));
  };
  return {share(0, dy, zero), share(1, zero, dy)};
}

}  // namespace

InputGrads Minimum::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return Choose(graph, node, graph.Make<Less>(node.inputs), *output_grads[0]);
}

InputGrads Maximum::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return Choose(graph, node, graph.Make<Greater>(node.inputs), *output_grads[0]);
}

}  // namespace leat::ops
