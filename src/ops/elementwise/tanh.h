// The hyperbolic tangent, and its gradient from the output.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Tanh final : public UnaryOp {
 public:
  std::string_view kind() const override { return "tanh"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs y, dy. dx = dy (1 - y²).
class TanhGrad final : public SameShapeOp {
 public:
  std::string_view kind() const override { return "tanh_grad"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
