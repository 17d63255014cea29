// Reductions that are a root or a logarithm of a sum.
#pragma once

#include "ops/shape/reduce.h"

namespace leat::ops {

// log Σ e^x along axes, which neither overflows nor loses what is small. Refuses to add up no elements.
class LogSumExp final : public ReduceOp {
 public:
  explicit LogSumExp(std::vector<int> a = {}, bool keep = false) : ReduceOp(std::move(a), keep) {}
  std::string_view kind() const override { return "log_sum_exp"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// √Σx² along axes. At 0, where it has a kink, no gradient flows.
class ReduceL2 final : public ReduceOp {
 public:
  explicit ReduceL2(std::vector<int> a = {}, bool keep = false) : ReduceOp(std::move(a), keep) {}
  std::string_view kind() const override { return "reduce_l2"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
