// x sigmoid(x), also called swish, and its gradient.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Silu final : public UnaryOp {
 public:
  std::string_view kind() const override { return "silu"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs x, dy. With s = sigmoid(x): dx = dy s (1 + x (1 - s)).
class SiluGrad final : public SameShapeOp {
 public:
  std::string_view kind() const override { return "silu_grad"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
