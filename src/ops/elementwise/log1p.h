// log(1 + x), accurate where x is small.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Log1p final : public UnaryOp {
 public:
  std::string_view kind() const override { return "log1p"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
