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

}  // namespace leat::ops
