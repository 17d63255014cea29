#include "ops/cast.h"

#include <stdexcept>

namespace leat::ops {

std::vector<TensorType> Cast::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  if (inputs[0].dtype == DType::kF32) throw std::invalid_argument("input is f32 already");
  return {{DType::kF32, inputs[0].shape}};
}

InputGrads Cast::Gradient(Graph&, const Node&, OutputGrads) const {
  return {std::nullopt};
}

}  // namespace leat::ops
