// Products along axes.
#pragma once

#include "ops/shape/reduce.h"

namespace leat::ops {

// The product of no elements is 1.
struct ReduceProd final : Named<ReduceOp, "reduce_prod"> {
  using Named::Named;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// For each element of x, the product of the others along the axes. Correct for zeros too, but its own
// gradient is not, since it divides by x.
struct ProdOfOthers final : Named<ReduceOp, "prod_of_others"> {
  explicit ProdOfOthers(std::vector<int> a = {}) : Named(std::move(a), true) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
