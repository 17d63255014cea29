#include "compute/ops/normalize/moments.h"

#include <stdexcept>

namespace leat::ops {
namespace {

TensorType MomentsOf(const TensorType& columns) {
  if (columns.dtype != DType::kI32 || columns.shape.rank() != 1)
    throw std::invalid_argument("columns are " + columns.ToString() + "; must be a list of i32");
  return {DType::kF32, Shape{3, columns.shape[0], 2}};
}

}  // namespace

std::vector<TensorType> Moments::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 3);
  graph::CheckF32(inputs.first(2));
  const Shape& x = inputs[0].shape;
  if (x.rank() == 0) throw std::invalid_argument("x" + x.ToString() + " must be [batch, ...]");
  if (inputs[1].shape != Shape{x[0]}) {
    throw std::invalid_argument("weights" + inputs[1].shape.ToString() +
                                " must have one element per row of x" + x.ToString());
  }
  return {MomentsOf(inputs[2])};
}

double Moments::flops(Types inputs, Types outputs) const {
  const int64_t rows = inputs[0].shape[0], columns = outputs[0].shape[1];
  return 5.0 * static_cast<double>(rows) * static_cast<double>(columns);
}

std::vector<TensorType> MomentsScaling::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 3);
  const TensorType moments = MomentsOf(inputs[2]);
  for (size_t i = 0; i < 2; ++i) {
    if (inputs[i] == moments) continue;
    throw std::invalid_argument("input " + std::to_string(i) + " is " + inputs[i].ToString() + "; must be " +
                                moments.ToString());
  }
  const TensorType out{DType::kF32, row};
  return {out, out, out};
}

}  // namespace leat::ops
