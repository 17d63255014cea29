// Elements of one type as those of another.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Any type → any other. To f32: rounded to the nearest. From f32 to bf16: rounded to the nearest. From f32 to
// whole numbers: towards zero, what lies outside of their range to its end, NaN to 0. Between whole numbers
// likewise. No gradient flows back.
class Cast final : public Op {
 public:
  explicit Cast(DType t = DType::kF32) : to(t) {}
  std::string_view kind() const override { return "cast"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const DType to;
};

}  // namespace leat::ops
