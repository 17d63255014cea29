// The same elements in the same order with another shape. A view: it costs nothing.
#pragma once

#include "ops/op.h"

namespace leat::ops {

struct Reshape final : Named<Op, "reshape"> {
  explicit Reshape(Shape s) : shape(s) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "shape=" + shape.ToString(); }
  bool is_view() const override { return true; }

  const Shape shape;
};

// Inserts axes of size 1. `axes` are positions in the result; negative ones count from the end.
Value Unsqueeze(Graph& graph, Value x, std::span<const int> axes);
// Removes the given axes, which must have size 1, or all axes of size 1 if none are given.
Value Squeeze(Graph& graph, Value x, std::span<const int> axes = {});
// Reshapes to a matrix: axes before `axis` become rows, `axis` and those after it columns. `axis` may be the
// rank.
Value Flatten(Graph& graph, Value x, int axis = 1);

}  // namespace leat::ops
