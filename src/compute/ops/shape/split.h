// Splits a tensor along an axis.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Output i has sizes[i] elements along the axis (negative: counted from the end). The sizes must add up to
// the axis. Any type.
struct Split final : Named<Op, "split"> {
  Split(int a, std::vector<int64_t> s) : axis(a), sizes(std::move(s)) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const int axis;
  const std::vector<int64_t> sizes;
};

}  // namespace leat::ops
