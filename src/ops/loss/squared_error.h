// (prediction - target)², element by element.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Inputs predictions, targets of the same shape.
class SquaredError final : public SameShapeOp {
 public:
  std::string_view kind() const override { return "squared_error"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
