// Layer normalisation (Ba, Kiros, Hinton 2016): normalises each row to mean 0 and variance 1, then scales and
// shifts.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Inputs f32 x[..., n] with n > 0, scale[n], offset[n]. Outputs, with mean m and variance v of a row:
//   y[..., n] = (x - m) s · scale + offset,  m[...],  s[...] = 1 / √(v + epsilon)
struct LayerNorm final : Named<Op, "layer_norm"> {
  explicit LayerNorm(float e = 1e-5f) : epsilon(e) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const float epsilon;  // > 0
};

// Inputs x, scale, m, s as above, dy. Outputs dx, dscale, doffset.
struct LayerNormGrad final : Named<Op, "layer_norm_grad"> {
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  double flops(Types inputs, Types outputs) const override;
};

}  // namespace leat::ops
