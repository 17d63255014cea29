// Broadcasting as in NumPy: shapes are aligned at their last axes, and axes of size 1 are stretched.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// The shape that both broadcast to. Throws std::invalid_argument with the sizes that differ.
Shape BroadcastShape(const Shape& a, const Shape& b);

// Strides, in elements, to read a tensor of shape `from` as one of shape `to`: 0 along stretched axes.
std::vector<int64_t> BroadcastStrides(const Shape& from, const Shape& to);

// x, of any type, stretched to `shape`.
struct BroadcastTo final : Named<Op, "broadcast_to"> {
  explicit BroadcastTo(Shape s) : shape(s) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "shape=" + shape.ToString(); }

  const Shape shape;
};

// x summed to `shape`, which must broadcast to the shape of x: the gradient of BroadcastTo.
struct SumTo final : Named<Op, "sum_to"> {
  explicit SumTo(Shape s) : shape(s) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "shape=" + shape.ToString(); }
  double flops(Types inputs, Types outputs) const override;

  const Shape shape;
};

// Adds a SumTo unless x has that shape already.
Value ReduceToShape(Graph& graph, Value x, const Shape& shape);
// Adds a BroadcastTo unless x has that shape already.
Value StretchToShape(Graph& graph, Value x, const Shape& shape);

}  // namespace leat::ops
