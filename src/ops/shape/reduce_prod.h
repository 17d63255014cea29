// Products along axes.
#pragma once

#include "ops/shape/reduce.h"

namespace leat::ops {

// The product of no elements is 1.
class ReduceProd final : public ReduceOp {
 public:
  explicit ReduceProd(std::vector<int> a = {}, bool keep = false) : ReduceOp(std::move(a), keep) {}
  std::string_view kind() const override { return "reduce_prod"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// For each element of x, the product of the others along the axes. Correct for zeros too, but its own
// gradient is not, since it divides by x.
class ProdOfOthers final : public ReduceOp {
 public:
  explicit ProdOfOthers(std::vector<int> a = {}) : ReduceOp(std::move(a), true) {}
  std::string_view kind() const override { return "prod_of_others"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
