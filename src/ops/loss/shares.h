// What each of some weights has of their sum.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// w / Σ w over all elements; where the sum is 0, w itself.
class Shares final : public UnaryOp {
 public:
  std::string_view kind() const override { return "shares"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
