// x[..., n] + b[n].
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Inputs x, with at least one axis, and b.
struct BiasAdd final : Named<Op, "bias_add"> {
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
