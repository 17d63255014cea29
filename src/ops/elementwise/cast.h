// Conversion between element types.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Converts any type to any other. Conversions to f32 and bf16 round to nearest. Conversions to integers
// truncate towards zero and clamp to the range; NaN becomes 0. No gradient flows.
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
