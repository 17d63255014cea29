// Matrix products, alone and with what follows them.
#pragma once

#include "base/fields/fields.h"
#include "compute/ops/op.h"

namespace leat::ops {

// Element types of matrix products and convolutions.

// Throws std::invalid_argument unless the first two inputs are both f32 or both bf16, and the others f32.
// Sums and results are always f32. bf16 operands have no gradient: differentiate first, then apply UseBf16.
void CheckOperands(Types inputs);

// Products of matrices and of batches of matrices, with optional transposition.

// Base of the products, which count two operations for each pair of elements.
class ProductOp : public Op {
 public:
  explicit ProductOp(bool ta = false, bool tb = false) : transpose_a(ta), transpose_b(tb) {}
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const bool transpose_a;
  const bool transpose_b;
};

// a[m, k] x b[k, n] → f32[m, n], both f32 or both bf16; with transpose_a, a is [k, m]; with transpose_b, b is
// [n, k].
struct MatMul final : Named<ProductOp, "matmul"> {
  using Named::Named;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Sizes of a matrix product, shared by MatMul and Dense.
struct MatMulSizes {
  int64_t m, n, k;
};
// Throws std::invalid_argument with the shapes if they are not two matrices with matching sizes.
MatMulSizes MatMulSizesOf(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b);

// a[..., m, k] x b[..., k, n] → [..., m, n]; with transpose_a, a is [..., k, m]; with transpose_b, b is
// [..., n, k]. The axes before the last two broadcast.
struct BatchMatMul final : Named<ProductOp, "batch_matmul"> {
  using Named::Named;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// The last two axes of a shape, and the batch axes before them.
Shape MatrixOf(const Shape& shape);
Shape BatchOf(const Shape& shape);

// x[..., n] + b[n].

// Inputs x, with at least one axis, and b.
struct BiasAdd final : Named<Op, "bias_add"> {
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// activation(x w + b) in one kernel. The pass FuseDense creates it from matmul, bias_add and an activation.

enum class Activation : uint8_t { kNone, kRelu, kSigmoid, kTanh, kGelu, kGeluTanh };
LEAT_ENUM(Activation, (kNone, "none"), (kRelu, "relu"), (kSigmoid, "sigmoid"), (kTanh, "tanh"),
          (kGelu, "gelu"), (kGeluTanh, "gelu_tanh"));
// Whether the gradient of the activation needs its input; otherwise it needs its output.
bool GradientNeedsInput(Activation activation);
// The gradient with respect to the activation's input. `from` is its input or output, see GradientNeedsInput.
Value ActivationGrad(Graph& graph, Activation activation, Value from, Value dy);

// Inputs x and w as a and b of MatMul, then the bias b[n].
struct Dense final : Named<ProductOp, "dense"> {
  Dense(bool ta, bool tb, Activation act) : Named(ta, tb), activation(act) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const Activation activation;
};

}  // namespace leat::ops
