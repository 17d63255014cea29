// Sine and cosine of x in radians.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Sin final : public UnaryOp {
 public:
  std::string_view kind() const override { return "sin"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

class Cos final : public UnaryOp {
 public:
  std::string_view kind() const override { return "cos"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
