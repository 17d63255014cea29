// 1 / √x.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Rsqrt final : public UnaryOp {
 public:
  std::string_view kind() const override { return "rsqrt"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
