// The natural logarithm of x.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Log final : public UnaryOp {
 public:
  std::string_view kind() const override { return "log"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
