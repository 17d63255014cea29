// Batch normalisation (Ioffe, Szegedy 2015): each channel to mean 0 and variance 1 over a batch, then scaled
// and shifted. This is what training does; with known statistics it is a product and a sum.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Inputs f32 x[batch, ..., c], scale[c], offset[c], weights[batch]. Outputs y like x, mean[c], variance[c]:
// those of each channel over all other axes, a row counting as its weight says, so a row of weight 2 is two
// rows; the variance is divided by the sum of weights. A row of weight 0 (or below) is padding: nothing of it
// is read into a sum, and its y is 0. Of padding alone mean and variance are 0. No gradient flows to weights.
class BatchNorm final : public Op {
 public:
  explicit BatchNorm(float e = 1e-5f) : epsilon(e) {}
  std::string_view kind() const override { return "batch_norm"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const float epsilon;  // > 0, added to the variance
};

// Inputs x, scale, weights, mean, variance as above, dy. Outputs dx, dscale, doffset; dx of padding is 0.
class BatchNormGrad final : public Op {
 public:
  explicit BatchNormGrad(float e) : epsilon(e) {}
  std::string_view kind() const override { return "batch_norm_grad"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const float epsilon;
};

}  // namespace leat::ops
