// Cross entropy of a sigmoid against targets in [0, 1], element by element.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Inputs logits x, targets t of the same shape. Computed as max(x, 0) - x t + log(1 + e^-|x|), which is
// numerically stable.
struct SigmoidCrossEntropy final : Named<SameShapeOp, "sigmoid_cross_entropy"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
