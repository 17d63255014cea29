// Element-wise gather along an axis and its inverse, scatter-add. Each is the gradient of the other.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Inputs x (any type), indices (i32 or i64, of the same rank, no longer than x along any axis but `axis`).
// The output has the shape of the indices: y[i, j, k] = x[i, indices[i, j, k], k] for axis 1. Negative
// indices count from the end; an index out of range gives 0.
struct GatherElements final : Named<Op, "gather_elements"> {
  explicit GatherElements(int a) : axis(a) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "axis=" + std::to_string(axis); }

  const int axis;
};

// Inputs x (f32), indices of the same shape. Output f32 of `shape`: each element of x is added at its index.
// Indices out of range are ignored.
struct ScatterElementsAdd final : Named<Op, "scatter_elements_add"> {
  ScatterElementsAdd(Shape s, int a) : shape(s), axis(a) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const Shape shape;
  const int axis;
};

}  // namespace leat::ops
