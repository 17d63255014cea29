// Concatenation along an axis.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Joins one or more inputs of the same type, whose shapes may differ only along `axis` (negative: counted
// from the end).
struct Concat final : Named<Op, "concat"> {
  explicit Concat(int a) : axis(a) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "axis=" + std::to_string(axis); }

  const int axis;
};

}  // namespace leat::ops
