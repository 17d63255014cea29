// log(1 + e^x): a relu without its kink.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Softplus final : public UnaryOp {
 public:
  std::string_view kind() const override { return "softplus"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
