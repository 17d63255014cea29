#include "compute/ops/elementwise/transcendental.h"

#include "compute/ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads Exp::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value y{node.index, 0};
  return {graph.Make<Mul>({*output_grads[0], y})};
}

InputGrads Expm1::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value slope = graph.Make<Scale>({Value{node.index, 0}}, 1.0f, 1.0f);
  return {graph.Make<Mul>({*output_grads[0], slope})};
}

InputGrads Log::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Div>({*output_grads[0], node.inputs[0]})};
}

InputGrads Log1p::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Div>({*output_grads[0], graph.Make<Scale>({node.inputs[0]}, 1.0f, 1.0f)})};
}

InputGrads Erf::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // 2/√π e^-x².
  constexpr float kSlope = 1.12837917f;
  const Value square = graph.Make<Square>({node.inputs[0]});
  const Value bell = graph.Make<Exp>({graph.Make<Neg>({square})});
  return {graph.Make<Mul>({*output_grads[0], graph.Make<Scale>({bell}, kSlope)})};
}

InputGrads Sin::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Mul>({*output_grads[0], graph.Make<Cos>({node.inputs[0]})})};
}

InputGrads Cos::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value sine = graph.Make<Sin>({node.inputs[0]});
  return {graph.Make<Neg>({graph.Make<Mul>({*output_grads[0], sine})})};
}

}  // namespace leat::ops
