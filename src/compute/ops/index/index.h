// Ops that take or make indices.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Gather along an axis and its inverse, scatter-add. Each is the gradient of the other.

// Resolves an index into an axis of size n: a negative index counts from the end; -1 if it is outside [-n,
// n).
inline int64_t PlaceOf(int64_t index, int64_t n) {
  const int64_t at = index < 0 ? index + n : index;
  return at >= 0 && at < n ? at : -1;
}
// Throws std::invalid_argument: "the indices are f32[3]; must be i32 or i64".
void CheckIndices(const TensorType& indices);
// The shape of a gather from x: that of the indices replaces the axis.
Shape GatheredShape(const Shape& x, const Shape& indices, int axis);

// Base of the ops that read along an axis, and of those that add to a tensor of `shape` along one.
class AlongAxis : public Op {
 public:
  explicit AlongAxis(int a) : axis(a) {}
  std::string attributes() const override { return "axis=" + std::to_string(axis); }

  const int axis;
};
class IntoShape : public Op {
 public:
  IntoShape(Shape s, int a) : shape(s), axis(a) {}
  std::string attributes() const override {
    return "shape=" + shape.ToString() + " axis=" + std::to_string(axis);
  }

  const Shape shape;
  const int axis;
};

// Inputs x (any type), indices (i32 or i64, any shape). The axes of the indices replace the axis of x:
// y[..., i..., ...] = x[..., indices[i...], ...]. Negative indices count from the end; an index out of range
// gives 0.
struct Gather final : Named<AlongAxis, "gather"> {
  explicit Gather(int a = 0) : Named(a) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs x (f32, of the shape that Gather returns for a tensor of `shape`), indices. Output f32 of `shape`:
// each slice of x is added at its index. Indices out of range are ignored.
struct ScatterAdd final : Named<IntoShape, "scatter_add"> {
  using Named::Named;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  double flops(Types inputs, Types outputs) const override;
};

// Element-wise gather along an axis and its inverse, scatter-add. Each is the gradient of the other.

// Inputs x (any type), indices (i32 or i64, of the same rank, no longer than x along any axis but `axis`).
// The output has the shape of the indices: y[i, j, k] = x[i, indices[i, j, k], k] for axis 1. Negative
// indices count from the end; an index out of range gives 0.
struct GatherElements final : Named<AlongAxis, "gather_elements"> {
  using Named::Named;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs x (f32), indices of the same shape. Output f32 of `shape`: each element of x is added at its index.
// Indices out of range are ignored.
struct ScatterElementsAdd final : Named<IntoShape, "scatter_elements_add"> {
  using Named::Named;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Embedding lookup, and the gradient of the table.

// Inputs table f32[rows, width], ids i32[...]; output f32[..., width]. An id outside [0, rows) gives zeros
// and has no gradient; kernels must not use it as an index.
struct Embedding final : Named<Op, "embedding"> {
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs ids i32[...], dy f32[..., width]; output f32[rows, width]: row i is the sum of the rows of dy with
// id i, in order.
struct EmbeddingGrad final : Named<Op, "embedding_grad"> {
  explicit EmbeddingGrad(int64_t r) : rows(r) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "rows=" + std::to_string(rows); }

  const int64_t rows;
};

// Op for one-hot encoding.

// Input indices (i32 or i64) of any shape; output f32[..., depth]. Negative indices count from the end; an
// index out of range gives a row of zeros. No gradient flows.
struct OneHot final : Named<WithoutGradient<Op>, "one_hot"> {
  explicit OneHot(int64_t d) : depth(d) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  std::string attributes() const override { return "depth=" + std::to_string(depth); }

  const int64_t depth;
};

// Evenly spaced numbers.

// A constant start, start + step, ... of `count` elements, as i32, i64 or f32. Integers wrap around on
// overflow. Throws std::invalid_argument if the count is negative or too large, or for any other type.
Value Range(Graph& graph, int64_t start, int64_t count, int64_t step = 1, DType type = DType::kI64);

}  // namespace leat::ops
