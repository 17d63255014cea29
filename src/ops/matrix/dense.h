// activation(x w + b) in one kernel. FuseDense makes it out of matmul, bias_add and an activation.
#pragma once

#include "ops/op.h"

namespace leat::ops {

enum class Activation : uint8_t { kNone, kRelu, kSigmoid, kTanh, kGelu, kGeluTanh };
// "none", "relu", "sigmoid", "tanh", "gelu", "gelu_tanh"
std::string_view Name(Activation activation);
// Whether the gradient starts from what the activation read; from what it made otherwise.
bool GradientNeedsInput(Activation activation);
// The gradient by what the activation read; `from` is that, or what it made.
Value ActivationGrad(Graph& graph, Activation activation, Value from, Value dy);

// Inputs x, w as MatMul's a, b; then b[n].
class Dense final : public Op {
 public:
  Dense(bool ta, bool tb, Activation act) : transpose_a(ta), transpose_b(tb), activation(act) {}
  std::string_view kind() const override { return "dense"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const bool transpose_a;
  const bool transpose_b;
  const Activation activation;
};

}  // namespace leat::ops
