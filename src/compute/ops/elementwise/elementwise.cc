#include "compute/ops/elementwise/elementwise.h"

#include <stdexcept>

#include "compute/ops/shape/shape.h"

namespace leat::ops {

InputGrads Add::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value dy = *output_grads[0];
  return {ReduceToShape(graph, dy, graph.shape(node.inputs[0])),
          ReduceToShape(graph, dy, graph.shape(node.inputs[1]))};
}

InputGrads Sub::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value dy = *output_grads[0];
  const Value db = ReduceToShape(graph, dy, graph.shape(node.inputs[1]));
  return {ReduceToShape(graph, dy, graph.shape(node.inputs[0])), graph.Make<Neg>({db})};
}

InputGrads Mul::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value a = node.inputs[0], b = node.inputs[1], dy = *output_grads[0];
  return {ReduceToShape(graph, graph.Make<Mul>({dy, b}), graph.shape(a)),
          ReduceToShape(graph, graph.Make<Mul>({dy, a}), graph.shape(b))};
}

InputGrads Div::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // y = a / b: da = dy / b, db = -dy y / b.
  const Value a = node.inputs[0], b = node.inputs[1], y{node.index, 0}, dy = *output_grads[0];
  const Value quotient = graph.Make<Div>({dy, b});
  const Value db = graph.Make<Neg>({graph.Make<Mul>({quotient, y})});
  return {ReduceToShape(graph, quotient, graph.shape(a)), ReduceToShape(graph, db, graph.shape(b))};
}

InputGrads Neg::Gradient(Graph& graph, const Node&, OutputGrads output_grads) const {
  return {graph.Make<Neg>({*output_grads[0]})};
}

InputGrads Abs::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Mul>({*output_grads[0], graph.Make<Sign>({node.inputs[0]})})};
}

InputGrads Scale::Gradient(Graph& graph, const Node&, OutputGrads output_grads) const {
  return {graph.Make<Scale>({*output_grads[0]}, factor)};
}

std::string Scale::attributes() const {
  std::string text = "factor=" + graph::ToString(factor);
  if (offset != 0) text += " offset=" + graph::ToString(offset);
  return text;
}

InputGrads Square::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Mul>({*output_grads[0], graph.Make<Scale>({node.inputs[0]}, 2.0f)})};
}

InputGrads Sqrt::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // y = √x: dx = dy / 2y.
  const Value y{node.index, 0};
  const Value zero = graph.Make<Constant>({}, 0.0f);
  const Value slope = graph.Make<Div>({*output_grads[0], graph.Make<Scale>({y}, 2.0f)});
  return {graph.Make<Where>({graph.Make<Equal>({y, zero}), zero, slope})};
}

InputGrads Rsqrt::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // y = x^-½: dx = -½ y³ dy.
  const Value y{node.index, 0};
  const Value cube = graph.Make<Mul>({graph.Make<Square>({y}), y});
  return {graph.Make<Mul>({*output_grads[0], graph.Make<Scale>({cube}, -0.5f)})};
}

InputGrads Reciprocal::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // y = 1 / x: dx = -y² dy.
  const Value slope = graph.Make<Neg>({graph.Make<Square>({Value{node.index, 0}})});
  return {graph.Make<Mul>({*output_grads[0], slope})};
}

InputGrads Pow::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // y = a^b: da = dy b a^(b-1), db = dy y log a. Where b or y is 0 the derivative is 0, but the formula gives
  // 0 · ∞.
  const Value a = node.inputs[0], b = node.inputs[1], y{node.index, 0}, dy = *output_grads[0];
  const Value zero = graph.Make<Constant>({}, 0.0f);
  const Value lower = graph.Make<Pow>({a, graph.Make<Scale>({b}, 1.0f, -1.0f)});
  const Value by_a = graph.Make<Where>(
      {graph.Make<Equal>({b, zero}), zero, graph.Make<Mul>({dy, graph.Make<Mul>({b, lower})})});
  const Value by_b = graph.Make<Where>({graph.Make<Equal>({y, zero}), zero,
                                        graph.Make<Mul>({dy, graph.Make<Mul>({y, graph.Make<Log>({a})})})});
  return {ReduceToShape(graph, by_a, graph.shape(a)), ReduceToShape(graph, by_b, graph.shape(b))};
}

InputGrads Power::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0], dy = *output_grads[0];
  if (exponent == 0) return {std::nullopt};
  if (exponent == 1) return {dy};
  if (exponent == 2) return {graph.Make<Mul>({dy, graph.Make<Scale>({x}, 2.0f)})};
  const Value slope = graph.Make<Scale>({graph.Make<Power>({x}, exponent - 1)}, exponent);
  const Value dx = graph.Make<Mul>({dy, slope});
  if (exponent < 0 || exponent > 1) return {dx};
  const Value zero = graph.Make<Constant>({}, 0.0f);
  return {graph.Make<Where>({graph.Make<Equal>({x, zero}), zero, dx})};
}

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

std::vector<TensorType> Cast::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  if (inputs[0].dtype == to) throw std::invalid_argument("input is " + std::string(Name(to)) + " already");
  return {{to, inputs[0].shape}};
}

std::string Cast::attributes() const {
  return to == DType::kF32 ? "" : "to=" + std::string(Name(to));
}

std::vector<TensorType> CompareOp::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  if (inputs[0].dtype != inputs[1].dtype || inputs[0].dtype == DType::kBf16) {
    throw std::invalid_argument("inputs are " + inputs[0].ToString() + " and " + inputs[1].ToString() +
                                "; must have the same type, f32 or whole numbers");
  }
  return {{DType::kU8, BroadcastShape(inputs[0].shape, inputs[1].shape)}};
}

std::vector<TensorType> IsFinite::Infer(Types inputs) const {
  graph::CheckF32(inputs, 1);
  return {{DType::kU8, inputs[0].shape}};
}

std::vector<TensorType> LogicalOp::Infer(Types inputs) const {
  graph::CheckTypes(inputs, DType::kU8, 2);
  return {{DType::kU8, BroadcastShape(inputs[0].shape, inputs[1].shape)}};
}

std::vector<TensorType> LogicalNot::Infer(Types inputs) const {
  graph::CheckTypes(inputs, DType::kU8, 1);
  return {inputs[0]};
}

std::vector<TensorType> Where::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 3);
  if (inputs[0].dtype != DType::kU8) {
    throw std::invalid_argument("the condition is " + inputs[0].ToString() + "; must be u8");
  }
  if (inputs[1].dtype != inputs[2].dtype) {
    throw std::invalid_argument("the branches are " + inputs[1].ToString() + " and " + inputs[2].ToString() +
                                "; must have the same type");
  }
  const Shape both = BroadcastShape(inputs[1].shape, inputs[2].shape);
  return {{inputs[1].dtype, BroadcastShape(inputs[0].shape, both)}};
}

InputGrads Where::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value condition = node.inputs[0], dy = *output_grads[0];
  const Value zero = graph.Make<Constant>({}, 0.0f);
  return {std::nullopt,
          ReduceToShape(graph, graph.Make<Where>({condition, dy, zero}), graph.shape(node.inputs[1])),
          ReduceToShape(graph, graph.Make<Where>({condition, zero, dy}), graph.shape(node.inputs[2]))};
}

}  // namespace leat::ops
