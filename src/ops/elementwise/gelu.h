// x Φ(x), Φ being the distribution function of the normal distribution (Hendrycks and Gimpel 2016), and its
// gradient. With `approximate`, Φ(x) is ½ (1 + tanh(√(2/π) (x + 0.044715 x³))).
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Gelu final : public UnaryOp {
 public:
  explicit Gelu(bool a = false) : approximate(a) {}
  std::string_view kind() const override { return "gelu"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return approximate ? "approximate=true" : ""; }

  const bool approximate;
};

// Inputs x, dy. dx = dy (Φ(x) + x Φ'(x)).
class GeluGrad final : public SameShapeOp {
 public:
  explicit GeluGrad(bool a) : approximate(a) {}
  std::string_view kind() const override { return "gelu_grad"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return approximate ? "approximate=true" : ""; }

  const bool approximate;
};

}  // namespace leat::ops
