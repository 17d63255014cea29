// Batch normalisation (Ioffe, Szegedy 2015) for training: normalises each channel to mean 0 and variance 1
// over the batch, then scales and shifts it. Inference uses known statistics and needs only a product and a
// sum.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Inputs f32 x[batch, ..., c], scale[c], offset[c], weights[batch]. Outputs y[batch, ..., c], mean[c],
// variance[c]. Mean and variance are taken over all axes but the last, and weighted by row: a row of weight 2
// counts as two rows. The variance is divided by the sum of weights. A row of weight <= 0 is padding: it is
// left out, even if it holds NaN, and its y is 0. If all rows are padding, mean and variance are 0. No
// gradient flows to the weights.
struct BatchNorm final : Named<Op, "batch_norm"> {
  explicit BatchNorm(float e = 1e-5f) : epsilon(e) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const float epsilon;  // > 0, added to the variance
};

// Inputs x, scale, weights, mean, variance as above, dy. Outputs dx, dscale, doffset. dx is 0 for padding.
struct BatchNormGrad final : Named<Op, "batch_norm_grad"> {
  explicit BatchNormGrad(float e) : epsilon(e) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const float epsilon;
};

}  // namespace leat::ops
