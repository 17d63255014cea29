// Gather along an axis and its inverse, scatter-add. Each is the gradient of the other.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Resolves an index into an axis of size n: a negative index counts from the end; -1 if it is outside [-n,
// n).
inline int64_t PlaceOf(int64_t index, int64_t n) {
  const int64_t at = index < 0 ? index + n : index;
  return at >= 0 && at < n ? at : -1;
}
// Throws std::invalid_argument: "the indices are f32[3]; must be i32 or i64".
void CheckIndices(const TensorType& indices);

// Inputs x (any type), indices (i32 or i64, any shape). The axes of the indices replace the axis of x:
// y[..., i..., ...] = x[..., indices[i...], ...]. Negative indices count from the end; an index out of range
// gives 0.
struct Gather final : Named<Op, "gather"> {
  explicit Gather(int a = 0) : axis(a) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "axis=" + std::to_string(axis); }

  const int axis;
};

// Inputs x (f32, of the shape that Gather returns for a tensor of `shape`), indices. Output f32 of `shape`:
// each slice of x is added at its index. Indices out of range are ignored.
struct ScatterAdd final : Named<Op, "scatter_add"> {
  ScatterAdd(Shape s, int a) : shape(s), axis(a) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const Shape shape;
  const int axis;
};

}  // namespace leat::ops
