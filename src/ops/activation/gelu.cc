#include "ops/activation/activation.h"

#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/transcendental.h"

namespace leat::ops {

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

}  // namespace leat::ops
