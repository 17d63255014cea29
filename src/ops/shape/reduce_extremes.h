// The largest and the smallest element along axes.
#pragma once

#include "ops/shape/reduce.h"

namespace leat::ops {

// NaN if any element is NaN. Equal extremes share the gradient. Rejects an empty input.
class ReduceExtreme : public ReduceOp {
 public:
  using ReduceOp::ReduceOp;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

using ReduceMax = Named<ReduceExtreme, "reduce_max">;
using ReduceMin = Named<ReduceExtreme, "reduce_min">;

}  // namespace leat::ops
