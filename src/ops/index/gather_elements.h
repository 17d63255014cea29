// Elements along an axis by their indices, and elements added up where indices say: each the gradient of the
// other.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Inputs x (of any type), indices (i32 or i64, of as many axes, no longer than x along any but `axis`). Like
// the indices: y[i, j, k] = x[i, indices[i, j, k], k] for axis 1. Negative indices count from the end; of an
// index that is outside of the axis comes 0.
class GatherElements final : public Op {
 public:
  explicit GatherElements(int a) : axis(a) {}
  std::string_view kind() const override { return "gather_elements"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "axis=" + std::to_string(axis); }

  const int axis;
};

// Inputs x (f32), indices of the same shape. The sum, in a tensor of `shape`, of the elements that each index
// places; those with an index outside of the axis are dropped.
class ScatterElementsAdd final : public Op {
 public:
  ScatterElementsAdd(Shape s, int a) : shape(s), axis(a) {}
  std::string_view kind() const override { return "scatter_elements_add"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const Shape shape;
  const int axis;
};

}  // namespace leat::ops
