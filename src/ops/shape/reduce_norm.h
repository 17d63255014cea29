// The reductions log-sum-exp and L2 norm.
#pragma once

#include "ops/shape/reduce.h"

namespace leat::ops {

// log Σ e^x along axes, numerically stable. Rejects an empty input.
struct LogSumExp final : Named<ReduceOp, "log_sum_exp"> {
  using Named::Named;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// √Σx² along axes. No gradient flows where the result is 0.
struct ReduceL2 final : Named<ReduceOp, "reduce_l2"> {
  using Named::Named;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
