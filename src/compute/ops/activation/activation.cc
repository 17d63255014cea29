#include "compute/ops/activation/activation.h"

#include <stdexcept>

#include "compute/ops/elementwise/elementwise.h"

namespace leat::ops {

InputGrads Relu::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<ReluGrad>({Value{node.index, 0}, *output_grads[0]})};
}

InputGrads ReluGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // The gradient is constant in y wherever it is differentiable.
  return {std::nullopt, graph.Make<ReluGrad>({node.inputs[0], *output_grads[0]})};
}

InputGrads LeakyRelu::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<LeakyReluGrad>({node.inputs[0], *output_grads[0]}, slope)};
}

InputGrads LeakyReluGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // The gradient is constant in x wherever it is differentiable.
  return {std::nullopt, graph.Make<LeakyReluGrad>({node.inputs[0], *output_grads[0]}, slope)};
}

InputGrads Elu::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<EluGrad>({node.inputs[0], *output_grads[0]}, alpha)};
}

InputGrads EluGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // With respect to x: alpha e^x below 0, else 0; with respect to dy: the same function again.
  const Value x = node.inputs[0], dy = node.inputs[1], dz = *output_grads[0];
  const Value both = graph.Make<Mul>({dz, dy});
  const Value bend =
      graph.Make<Sub>({graph.Make<EluGrad>({x, both}, alpha), graph.Make<ReluGrad>({x, both})});
  return {bend, graph.Make<EluGrad>({x, dz}, alpha)};
}

namespace {

// The second derivative, Φ' (2 - x²) with Φ' = e^(-x²/2) / √(2π).
Value SecondDerivative(Graph& graph, Value x) {
  constexpr float kPeak = 0.398942280f;
  const Value square = graph.Make<Square>({x});
  const Value bell = graph.Make<Scale>({graph.Make<Exp>({graph.Make<Scale>({square}, -0.5f)})}, kPeak);
  return graph.Make<Mul>({bell, graph.Make<Scale>({square}, -1.0f, 2.0f)});
}

// The second derivative of the approximation. With t = tanh(u) and u = c (x + a x³):
// (1 - t²) (u' + ½ x u'' - x t u'²), where u' = c (1 + 3 a x²) and u'' = 6 a c x.
Value SecondDerivativeOfApproximate(Graph& graph, Value x) {
  constexpr float kC = 0.797884561f, kA = 0.044715f;
  const Value square = graph.Make<Square>({x});
  const Value u = graph.Make<Mul>({x, graph.Make<Scale>({square}, kC * kA, kC)});
  const Value t = graph.Make<Tanh>({u});
  const Value u1 = graph.Make<Scale>({square}, 3 * kC * kA, kC);
  const Value straight = graph.Make<Scale>({square}, 6 * kC * kA, kC);  // u' + ½ x u''
  const Value bend = graph.Make<Mul>({graph.Make<Mul>({x, t}), graph.Make<Square>({u1})});
  return graph.Make<TanhGrad>({t, graph.Make<Sub>({straight, bend})});
}

}  // namespace

InputGrads Gelu::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<GeluGrad>({node.inputs[0], *output_grads[0]}, approximate)};
}

InputGrads GeluGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0], dy = node.inputs[1], dz = *output_grads[0];
  const Value second = approximate ? SecondDerivativeOfApproximate(graph, x) : SecondDerivative(graph, x);
  return {graph.Make<Mul>({graph.Make<Mul>({dz, dy}), second}), graph.Make<GeluGrad>({x, dz}, approximate)};
}

InputGrads Silu::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<SiluGrad>({node.inputs[0], *output_grads[0]})};
}

InputGrads SiluGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // ∂z/∂x = dy s (1 - s) (2 + x (1 - 2s)); with respect to dy it is the same function again.
  const Value x = node.inputs[0], dy = node.inputs[1], dz = *output_grads[0];
  const Value s = graph.Make<Sigmoid>({x});
  const Value bend = graph.Make<Mul>({x, graph.Make<Scale>({s}, -2.0f, 1.0f)});
  const Value outer = graph.Make<SigmoidGrad>({s, graph.Make<Mul>({dz, dy})});
  return {graph.Make<Mul>({outer, graph.Make<Scale>({bend}, 1.0f, 2.0f)}), graph.Make<SiluGrad>({x, dz})};
}

InputGrads Sigmoid::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<SigmoidGrad>({Value{node.index, 0}, *output_grads[0]})};
}

InputGrads SigmoidGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // z = dy y (1 - y): ∂z/∂y = dy (1 - 2y); with respect to dy it is the same function again.
  const Value y = node.inputs[0], dy = node.inputs[1], dz = *output_grads[0];
  const Value slope = graph.Make<Mul>({dy, graph.Make<Scale>({y}, -2.0f, 1.0f)});
  return {graph.Make<Mul>({dz, slope}), graph.Make<SigmoidGrad>({y, dz})};
}

InputGrads Tanh::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<TanhGrad>({Value{node.index, 0}, *output_grads[0]})};
}

InputGrads TanhGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // z = dy (1 - y²): ∂z/∂y = -2 y dy; with respect to dy it is the same function again.
  const Value y = node.inputs[0], dy = node.inputs[1], dz = *output_grads[0];
  const Value slope = graph.Make<Mul>({dy, graph.Make<Scale>({y}, -2.0f)});
  return {graph.Make<Mul>({dz, slope}), graph.Make<TanhGrad>({y, dz})};
}

InputGrads Softplus::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Mul>({*output_grads[0], graph.Make<Sigmoid>({node.inputs[0]})})};
}

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
