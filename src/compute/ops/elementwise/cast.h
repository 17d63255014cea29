// Conversion between element types.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Converts any type to any other. Conversions to f32 and bf16 round to nearest. Conversions to integers
// truncate towards zero and clamp to the range; NaN becomes 0. No gradient flows.
struct Cast final : Named<WithoutGradient<Op>, "cast"> {
  explicit Cast(DType t = DType::kF32) : to(t) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  std::string attributes() const override;

  const DType to;
};

}  // namespace leat::ops
