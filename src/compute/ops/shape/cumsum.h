// Cumulative sums along an axis.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Element i is the sum of elements 0 to i, or 0 to i - 1 if `exclusive`. `reverse` sums from the end.
struct CumSum final : Named<Op, "cumsum"> {
  explicit CumSum(int a, bool ex = false, bool rev = false) : axis(a), exclusive(ex), reverse(rev) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const int axis;
  const bool exclusive;
  const bool reverse;
};

}  // namespace leat::ops
