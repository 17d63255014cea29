// Weights normalised to the sum 1.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// w / Σ w over all elements; w itself if the sum is 0.
struct Shares final : Named<UnaryOp, "shares"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
