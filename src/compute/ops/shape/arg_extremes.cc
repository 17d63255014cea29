#include "compute/ops/shape/arg_extremes.h"

#include <stdexcept>

#include "compute/ops/shape/axis.h"

namespace leat::ops {

std::vector<TensorType> ArgExtreme::Infer(Types inputs) const {
  graph::CheckF32(inputs, 1);
  if (type != DType::kI32 && type != DType::kI64) {
    throw std::invalid_argument("the index type is " + std::string(Name(type)) + "; must be i32 or i64");
  }
  const Shape& shape = inputs[0].shape;
  const size_t at = AxisOf(axis, shape.rank());
  if (shape[at] == 0) {
    throw std::invalid_argument("axis " + std::to_string(axis) + " of " + shape.ToString() +
                                " has no elements");
  }
  std::vector<int64_t> sizes = SizesOf(shape);
  if (keep_dims) {
    sizes[at] = 1;
  } else {
    sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(at));
  }
  return {{type, Shape(sizes)}};
}

std::string ArgExtreme::attributes() const {
  return "axis=" + std::to_string(axis) + (keep_dims ? " keep_dims=true" : "") +
         (type == DType::kI64 ? "" : " type=" + std::string(Name(type)));
}

double ArgExtreme::flops(Types inputs, Types) const {
  return static_cast<double>(inputs[0].shape.elements());
}

}  // namespace leat::ops
