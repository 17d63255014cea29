// Positions of the largest and the smallest element along an axis.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Input f32, output i32 or i64. The first of equal elements; NaN only if all are NaN. The axis (negative:
// counted from the end) is removed, or kept with size 1 if keep_dims. It must not be empty. No gradient
// flows.
class ArgExtreme : public WithoutGradient<Op> {
 public:
  explicit ArgExtreme(int a = -1, bool keep = false, DType t = DType::kI64)
      : axis(a), keep_dims(keep), type(t) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const int axis;
  const bool keep_dims;
  const DType type;
};

using ArgMax = Named<ArgExtreme, "arg_max">;
using ArgMin = Named<ArgExtreme, "arg_min">;

}  // namespace leat::ops
