// |prediction - target|, element by element.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Inputs predictions, targets of the same shape. No gradient flows where they are equal.
class AbsoluteError final : public SameShapeOp {
 public:
  std::string_view kind() const override { return "absolute_error"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
