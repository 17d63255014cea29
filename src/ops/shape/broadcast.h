// NumPy's broadcasting: shapes are aligned at their last axes, and a size of 1 stretches.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// The shape both broadcast to. Throws std::invalid_argument with the sizes that differ.
Shape BroadcastShape(const Shape& a, const Shape& b);

// Element strides of a tensor of shape `from` when read as one of shape `to`: 0 along stretched axes.
std::vector<int64_t> BroadcastStrides(const Shape& from, const Shape& to);

// x, of any type, stretched to `shape`.
class BroadcastTo final : public Op {
 public:
  explicit BroadcastTo(Shape s) : shape(s) {}
  std::string_view kind() const override { return "broadcast_to"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "shape=" + shape.ToString(); }

  const Shape shape;
};

// x summed back to `shape`, which must broadcast to x's: what a gradient needs on its way through a
// broadcast.
class SumTo final : public Op {
 public:
  explicit SumTo(Shape s) : shape(s) {}
  std::string_view kind() const override { return "sum_to"; }
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

// Each element of an axis `times` times, one beside the other: [a, b] → [a, a, b, b]. Nearest-neighbour
// scaling by a whole factor.
Value Repeat(Graph& graph, Value x, int axis, int64_t times);
// x laid side by side times[i] times along each axis i: [a, b] → [a, b, a, b].
Value Tile(Graph& graph, Value x, std::span<const int64_t> times);

}  // namespace leat::ops
