// Rows of a table by their indices, and rows added up where indices say: each the gradient of the other.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Where an index as these ops take it points to among n: from the end when negative, -1 when it is outside of
// [-n, n).
inline int64_t PlaceOf(int64_t index, int64_t n) {
  const int64_t at = index < 0 ? index + n : index;
  return at >= 0 && at < n ? at : -1;
}
// Throws "the indices are f32[3]; must be i32 or i64".
void CheckIndices(const TensorType& indices);

// Inputs x (of any type), indices (i32 or i64, of any shape). The axis of x gives way to those of the
// indices: y[..., i..., ...] = x[..., indices[i...], ...]. Negative indices count from the end; of an index
// that is outside of the axis comes 0.
class Gather final : public Op {
 public:
  explicit Gather(int a = 0) : axis(a) {}
  std::string_view kind() const override { return "gather"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "axis=" + std::to_string(axis); }

  const int axis;
};

// Inputs x (f32, as Gather makes it from a tensor of `shape`), indices. The sum, in a tensor of `shape`, of
// what each index chose; what indices outside of the axis chose is dropped.
class ScatterAdd final : public Op {
 public:
  ScatterAdd(Shape s, int a) : shape(s), axis(a) {}
  std::string_view kind() const override { return "scatter_add"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const Shape shape;
  const int axis;
};

}  // namespace leat::ops
