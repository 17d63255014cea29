// -1, 0 or 1 as x is negative, zero or positive. No gradient flows through it.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Sign final : public UnaryOp {
 public:
  std::string_view kind() const override { return "sign"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
