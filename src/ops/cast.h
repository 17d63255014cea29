// Data's types to the one that networks compute in.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// u8, i32 or i64 → f32, rounded to the nearest. No gradient flows back.
class Cast final : public Op {
 public:
  std::string_view kind() const override { return "cast"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
