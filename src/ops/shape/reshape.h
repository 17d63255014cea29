// The same elements in the same order, in another shape. Costs nothing: a view.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Reshape final : public Op {
 public:
  explicit Reshape(Shape s) : shape(s) {}
  std::string_view kind() const override { return "reshape"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "shape=" + shape.ToString(); }
  bool is_view() const override { return true; }

  const Shape shape;
};

// Axes of size 1 put in: `axes` are those of the result, from the end when negative.
Value Unsqueeze(Graph& graph, Value x, std::span<const int> axes);
// Axes of size 1 taken out: those named, or all that there are.
Value Squeeze(Graph& graph, Value x, std::span<const int> axes = {});
// A matrix: the axes before `axis` as rows, it and those behind it as columns. `axis` may be the rank.
Value Flatten(Graph& graph, Value x, int axis = 1);

}  // namespace leat::ops
