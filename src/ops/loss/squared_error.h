// (prediction - target)², element by element.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Inputs predictions, targets of the same shape.
struct SquaredError final : Named<SameShapeOp, "squared_error"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
