// activation(x w + b) in one kernel. The pass FuseDense creates it from matmul, bias_add and an activation.
#pragma once

#include "base/fields/fields.h"
#include "compute/ops/op.h"

namespace leat::ops {

enum class Activation : uint8_t { kNone, kRelu, kSigmoid, kTanh, kGelu, kGeluTanh };
LEAT_ENUM(Activation, (kNone, "none"), (kRelu, "relu"), (kSigmoid, "sigmoid"), (kTanh, "tanh"),
          (kGelu, "gelu"), (kGeluTanh, "gelu_tanh"));
// Whether the gradient of the activation needs its input; otherwise it needs its output.
bool GradientNeedsInput(Activation activation);
// The gradient with respect to the activation's input. `from` is its input or output, see GradientNeedsInput.
Value ActivationGrad(Graph& graph, Activation activation, Value from, Value dy);

// Inputs x and w as a and b of MatMul, then the bias b[n].
struct Dense final : Named<Op, "dense"> {
  Dense(bool ta, bool tb, Activation act) : transpose_a(ta), transpose_b(tb), activation(act) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const bool transpose_a;
  const bool transpose_b;
  const Activation activation;
};

}  // namespace leat::ops
