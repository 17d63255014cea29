#include "ops/activation/activation.h"

#include <stdexcept>

#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

std::vector<TensorType> Clip::Infer(Types inputs) const {
  if (!(low <= high))
    throw std::invalid_argument("low " + graph::ToString(low) + " is greater than high " +
                                graph::ToString(high));
  return UnaryOp::Infer(inputs);
}

InputGrads Clip::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<ClipGrad>({node.inputs[0], *output_grads[0]}, low, high)};
}

InputGrads ClipGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // The gradient is constant in x wherever it is differentiable.
  return {std::nullopt, graph.Make<ClipGrad>({node.inputs[0], *output_grads[0]}, low, high)};
}

Value HardSigmoid(Graph& graph, Value x, float alpha, float beta) {
  return graph.Make<Clip>({graph.Make<Scale>({x}, alpha, beta)}, 0.0f, 1.0f);
}

Value HardSwish(Graph& graph, Value x) {
  return graph.Make<Mul>({x, HardSigmoid(graph, x, 1.0f / 6, 0.5f)});
}

}  // namespace leat::ops
