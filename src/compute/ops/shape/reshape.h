// The same elements in the same order with another shape. A view: it costs nothing.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

struct Reshape final : Named<Op, "reshape"> {
  explicit Reshape(Shape s) : shape(s) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "shape=" + shape.ToString(); }
  bool is_view() const override { return true; }

  const Shape shape;
};

}  // namespace leat::ops
