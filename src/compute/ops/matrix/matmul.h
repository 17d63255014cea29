// Products of matrices and of batches of matrices, with optional transposition.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// a[m, k] x b[k, n] → f32[m, n], both f32 or both bf16; with transpose_a, a is [k, m]; with transpose_b, b is
// [n, k].
struct MatMul final : Named<Op, "matmul"> {
  explicit MatMul(bool ta = false, bool tb = false) : transpose_a(ta), transpose_b(tb) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const bool transpose_a;
  const bool transpose_b;
};

// Sizes of a matrix product, shared by MatMul and Dense.
struct MatMulSizes {
  int64_t m, n, k;
};
// Throws std::invalid_argument with the shapes if they are not two matrices with matching sizes.
MatMulSizes MatMulSizesOf(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b);

// a[..., m, k] x b[..., k, n] → [..., m, n]; with transpose_a, a is [..., k, m]; with transpose_b, b is
// [..., n, k]. The axes before the last two broadcast.
struct BatchMatMul final : Named<Op, "batch_matmul"> {
  explicit BatchMatMul(bool ta = false, bool tb = false) : transpose_a(ta), transpose_b(tb) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const bool transpose_a;
  const bool transpose_b;
};

// The batch axes of a shape: all but the last two.
Shape BatchOf(const Shape& shape);

}  // namespace leat::ops
