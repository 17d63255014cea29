// a * b, broadcast.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Mul final : public BinaryOp {
 public:
  std::string_view kind() const override { return "mul"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
