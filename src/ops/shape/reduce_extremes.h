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

class ReduceMax final : public ReduceExtreme {
 public:
  explicit ReduceMax(std::vector<int> a = {}, bool keep = false) : ReduceExtreme(std::move(a), keep) {}
  std::string_view kind() const override { return "reduce_max"; }
};

class ReduceMin final : public ReduceExtreme {
 public:
  explicit ReduceMin(std::vector<int> a = {}, bool keep = false) : ReduceExtreme(std::move(a), keep) {}
  std::string_view kind() const override { return "reduce_min"; }
};

}  // namespace leat::ops
