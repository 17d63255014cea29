#include "ops/elementwise/transcendental.h"

#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Sin::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Mul>({*output_grads[0], graph.Make<Cos>({node.inputs[0]})})};
}

InputGrads Cos::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value sine = graph.Make<Sin>({node.inputs[0]});
  return {graph.Make<Neg>({graph.Make<Mul>({*output_grads[0], sine})})};
}

}  // namespace leat::ops
