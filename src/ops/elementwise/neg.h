// -x.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Neg final : public UnaryOp {
 public:
  std::string_view kind() const override { return "neg"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
