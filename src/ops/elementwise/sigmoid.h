// 1 / (1 + e^-x), and its gradient from the output.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Sigmoid final : public UnaryOp {
 public:
  std::string_view kind() const override { return "sigmoid"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs y, dy. dx = dy y (1 - y).
class SigmoidGrad final : public SameShapeOp {
 public:
  std::string_view kind() const override { return "sigmoid_grad"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
