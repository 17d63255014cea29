// activation(conv2d(x, w) + b) in one kernel, and the gradients of weights and bias in one. Created by the
// passes of ops/convolution/fuse.h.
#pragma once

#include "ops/convolution/conv2d.h"
#include "ops/matrix/dense.h"

namespace leat::ops {

// Inputs x, w as for Conv2d, b[filters].
class Conv2dBias final : public Op {
 public:
  explicit Conv2dBias(Conv2dAttributes a = {}, Activation act = Activation::kNone)
      : attr(a), activation(act) {}
  std::string_view kind() const override { return "conv2d_bias"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const Conv2dAttributes attr;
  const Activation activation;
};

// Inputs x, y as for Conv2dGradWeights; outputs w and b[filters], the sum of y over all windows.
class Conv2dGradWeightsBias final : public Op {
 public:
  Conv2dGradWeightsBias(Conv2dAttributes a, Pair k) : attr(a), kernel(k) {}
  std::string_view kind() const override { return "conv2d_grad_weights_bias"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const Conv2dAttributes attr;
  const Pair kernel;
};

}  // namespace leat::ops
