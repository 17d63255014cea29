// x where it is positive, slope · x elsewhere, and its gradient.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class LeakyRelu final : public UnaryOp {
 public:
  explicit LeakyRelu(float s = 0.01f) : slope(s) {}
  std::string_view kind() const override { return "leaky_relu"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "slope=" + graph::ToString(slope); }

  const float slope;
};

// Inputs x, dy. dx = dy where x > 0, else slope · dy.
class LeakyReluGrad final : public SameShapeOp {
 public:
  explicit LeakyReluGrad(float s) : slope(s) {}
  std::string_view kind() const override { return "leaky_relu_grad"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "slope=" + graph::ToString(slope); }

  const float slope;
};

}  // namespace leat::ops
