// The square root of x.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Sqrt final : public UnaryOp {
 public:
  std::string_view kind() const override { return "sqrt"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
