// max(x, 0), and its gradient from the output.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Relu final : public UnaryOp {
 public:
  std::string_view kind() const override { return "relu"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs y, dy. dx = dy where y > 0, else 0.
class ReluGrad final : public SameShapeOp {
 public:
  std::string_view kind() const override { return "relu_grad"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
