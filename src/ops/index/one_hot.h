// Indices as rows of zeros with a single 1.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Indices (i32 or i64) of any shape in, f32 with an axis of size `depth` behind theirs out. Negative indices
// count from the end; of an index that is outside of the axis comes a row of zeros. No gradient flows.
class OneHot final : public Op {
 public:
  explicit OneHot(int64_t d) : depth(d) {}
  std::string_view kind() const override { return "one_hot"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "depth=" + std::to_string(depth); }

  const int64_t depth;
};

}  // namespace leat::ops
