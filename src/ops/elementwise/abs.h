// |x|; its gradient is sign(x) dy, 0 at 0.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Abs final : public UnaryOp {
 public:
  std::string_view kind() const override { return "abs"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
