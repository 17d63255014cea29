#include "compute/ops/index/one_hot.h"

#include "compute/ops/index/gather.h"
#include "compute/ops/shape/axis.h"

namespace leat::ops {

std::vector<TensorType> OneHot::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  CheckIndices(inputs[0]);
  std::vector<int64_t> sizes = SizesOf(inputs[0].shape);
  sizes.push_back(depth);
  return {{DType::kF32, Shape(sizes)}};
}

}  // namespace leat::ops
