#include "compute/ops/shape/reduce.h"

#include <stdexcept>

#include "compute/ops/elementwise/elementwise.h"
#include "compute/ops/shape/shape.h"

namespace leat::ops {

Value ReduceOp::SpreadBack(Graph& graph, Value x, Value dy) const {
  const Shape shape = graph.shape(x), kept = KeptShape(shape);
  if (graph.shape(dy) != kept) dy = graph.Make<Reshape>({dy}, kept);
  return StretchToShape(graph, dy, shape);
}

void ReduceOp::CheckNotEmpty(std::string_view what, const Shape& input, const Shape& output) {
  if (input.elements() != 0 || output.elements() == 0) return;
  throw std::invalid_argument("the " + std::string(what) + " of no elements: input is " + input.ToString());
}

std::vector<bool> ReduceOp::Reduced(size_t rank) const {
  std::vector<bool> reduced(rank, axes.empty());
  for (int axis : axes) {
    const size_t at = AxisOf(axis, rank);
    if (reduced[at]) throw std::invalid_argument("axis " + std::to_string(axis) + " is listed twice");
    reduced[at] = true;
  }
  return reduced;
}

Shape ReduceOp::KeptShape(const Shape& input) const {
  const std::vector<bool> reduced = Reduced(input.rank());
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < input.rank(); ++i) sizes.push_back(reduced[i] ? 1 : input[i]);
  return Shape(sizes);
}

std::vector<TensorType> ReduceOp::Infer(Types inputs) const {
  graph::CheckF32(inputs, 1);
  const Shape& shape = inputs[0].shape;
  if (keep_dims) return {{DType::kF32, KeptShape(shape)}};
  const std::vector<bool> reduced = Reduced(shape.rank());
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (!reduced[i]) sizes.push_back(shape[i]);
  }
  return {{DType::kF32, Shape(sizes)}};
}

std::string ReduceOp::attributes() const {
  std::string text = "axes=";
  if (axes.empty()) text += "all";
  for (size_t i = 0; i < axes.size(); ++i) text += (i ? "," : "") + std::to_string(axes[i]);
  return text + (keep_dims ? " keep_dims=true" : "");
}

double ReduceOp::flops(Types inputs, Types) const {
  return static_cast<double>(inputs[0].shape.elements());
}

InputGrads ReduceSum::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {SpreadBack(graph, node.inputs[0], *output_grads[0])};
}

std::vector<TensorType> ReduceMean::Infer(Types inputs) const {
  std::vector<TensorType> types = ReduceOp::Infer(inputs);
  if (inputs[0].shape.elements() == 0) {
    throw std::invalid_argument("the mean of no elements: input is " + inputs[0].shape.ToString());
  }
  return types;
}

InputGrads ReduceMean::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0], dy = *output_grads[0];
  const auto count =
      static_cast<float>(graph.shape(x).elements()) / static_cast<float>(graph.shape(dy).elements());
  return {SpreadBack(graph, x, graph.Make<Scale>({dy}, 1 / count))};
}

std::vector<TensorType> ReduceExtreme::Infer(Types inputs) const {
  std::vector<TensorType> types = ReduceOp::Infer(inputs);
  CheckNotEmpty("extreme", inputs[0].shape, types[0].shape);
  return types;
}

InputGrads ReduceExtreme::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0], y = SpreadBack(graph, x, {node.index, 0});
  const Value chosen = graph.Make<Cast>({graph.Make<Equal>({x, y})});
  const Value count = graph.Make<ReduceSum>({chosen}, axes, keep_dims);
  const Value share = graph.Make<Div>({*output_grads[0], count});
  return {graph.Make<Mul>({chosen, SpreadBack(graph, x, share)})};
}

std::vector<TensorType> LogSumExp::Infer(Types inputs) const {
  std::vector<TensorType> types = ReduceOp::Infer(inputs);
  CheckNotEmpty("logarithm of a sum", inputs[0].shape, types[0].shape);
  return types;
}

InputGrads LogSumExp::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0], y = SpreadBack(graph, x, {node.index, 0});
  const Value share = graph.Make<Exp>({graph.Make<Sub>({x, y})});
  return {graph.Make<Mul>({SpreadBack(graph, x, *output_grads[0]), share})};
}

InputGrads ReduceL2::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0], y{node.index, 0};
  const Value zero = graph.Make<Constant>({}, 0.0f);
  const Value share =
      graph.Make<Where>({graph.Make<Equal>({y, zero}), zero, graph.Make<Div>({*output_grads[0], y})});
  return {graph.Make<Mul>({x, SpreadBack(graph, x, share)})};
}

InputGrads ReduceProd::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0];
  const Value others = graph.Make<ProdOfOthers>({x}, axes);
  return {graph.Make<Mul>({SpreadBack(graph, x, *output_grads[0]), others})};
}

std::vector<TensorType> ProdOfOthers::Infer(Types inputs) const {
  ReduceOp::Infer(inputs);
  return {inputs[0]};
}

InputGrads ProdOfOthers::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // Without elements i and j the product is y_i / x_j: the sum of dy_i y_i over all i but j, divided by x_j.
  const Value x = node.inputs[0], y{node.index, 0};
  const Value terms = graph.Make<Mul>({*output_grads[0], y});
  const Value sum = SpreadBack(graph, x, graph.Make<ReduceSum>({terms}, axes, true));
  return {graph.Make<Div>({graph.Make<Sub>({sum, terms}), x})};
}

std::vector<TensorType> ArgExtreme::Infer(Types inputs) const {
  graph::CheckF32(inputs, 1);
  if (type != DType::kI32 && type != DType::kI64) {
    throw std::invalid_argument("the index type is " + std::string(Name(type)) + "; must be i32 or i64");
  }
  const Shape& shape = inputs[0].shape;
  const size_t at = AxisOf(axis, shape.rank());
  if (shape[at] == 0) {
    throw std::invalid_argument("axis " + std::to_string(axis) + " of " + shape.ToString() +
                                " has no elements");
  }
  std::vector<int64_t> sizes = SizesOf(shape);
  if (keep_dims) {
    sizes[at] = 1;
  } else {
    sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(at));
  }
  return {{type, Shape(sizes)}};
}

std::string ArgExtreme::attributes() const {
  return "axis=" + std::to_string(axis) + (keep_dims ? " keep_dims=true" : "") +
         (type == DType::kI64 ? "" : " type=" + std::string(Name(type)));
}

double ArgExtreme::flops(Types inputs, Types) const {
  return static_cast<double>(inputs[0].shape.elements());
}

std::vector<TensorType> CumSum::Infer(Types inputs) const {
  graph::CheckF32(inputs, 1);
  AxisOf(axis, inputs[0].shape.rank());
  return {inputs[0]};
}

InputGrads CumSum::Gradient(Graph& graph, const Node&, OutputGrads output_grads) const {
  return {graph.Make<CumSum>({*output_grads[0]}, axis, exclusive, !reverse)};
}

std::string CumSum::attributes() const {
  return "axis=" + std::to_string(axis) + (exclusive ? " exclusive=true" : "") +
         (reverse ? " reverse=true" : "");
}

}  // namespace leat::ops
