// |prediction - target|, element by element.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Inputs predictions, targets of the same shape. No gradient flows where they are equal.
struct AbsoluteError final : Named<SameShapeOp, "absolute_error"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
