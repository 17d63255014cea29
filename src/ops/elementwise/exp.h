// e to the x.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Exp final : public UnaryOp {
 public:
  std::string_view kind() const override { return "exp"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
