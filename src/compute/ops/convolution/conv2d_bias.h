// activation(conv2d(x, w) + b) in one kernel, and the gradients of weights and bias in one. Created by the
// passes of compute/ops/convolution/fuse.h.
#pragma once

#include "compute/ops/convolution/conv2d.h"
#include "compute/ops/matrix/matrix.h"

namespace leat::ops {

// Inputs x, w as for Conv2d, b[filters].
struct Conv2dBias final : Named<Op, "conv2d_bias"> {
  explicit Conv2dBias(Conv2dAttributes a = {}, Activation act = Activation::kNone)
      : attr(a), activation(act) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const Conv2dAttributes attr;
  const Activation activation;
};

// Inputs x, y as for Conv2dGradWeights; outputs w and b[filters], the sum of y over all windows.
struct Conv2dGradWeightsBias final : Named<Op, "conv2d_grad_weights_bias"> {
  Conv2dGradWeightsBias(Conv2dAttributes a, Pair k) : attr(a), kernel(k) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const Conv2dAttributes attr;
  const Pair kernel;
};

}  // namespace leat::ops
