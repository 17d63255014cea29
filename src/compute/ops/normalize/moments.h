// Running moments of some columns of a batch, and the normalisation that they give.
//
// Moments travel as words of 32 bits (compute/optim/moments.h), in tensors f32[3, k, 2] for k columns. The
// columns, i32[k], are elements of a row of n, in [0, n). They are an input, usually a constant. No gradient
// flows through these ops: to the loss, moments are constants.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Inputs f32 x[batch, ...], weights[batch], columns. Output: the moments of the columns over the rows with a
// weight above 0, each of which counts once. Values that are not finite are left out.
struct Moments final : Named<WithoutGradient<Op>, "moments"> {
  std::vector<TensorType> Infer(Types inputs) const override;
  double flops(Types inputs, Types outputs) const override;
};

// Inputs: running moments and those of a batch, f32[3, k, 2], and the columns. Outputs f32 shift, rest and
// factor (optim::Scaling), each of the shape of a row: by the running moments, or by the batch's for a column
// whose running count is 0. All other columns are left as they are: shift and rest 0, factor 1.
struct MomentsScaling final : Named<WithoutGradient<Op>, "moments_scaling"> {
  explicit MomentsScaling(Shape r) : row(r) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  std::string attributes() const override { return "row=" + row.ToString(); }

  const Shape row;
};

}  // namespace leat::ops
