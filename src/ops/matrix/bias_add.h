// x[..., n] + b[n].
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Inputs x, with at least one axis, and b.
class BiasAdd final : public Op {
 public:
  std::string_view kind() const override { return "bias_add"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
