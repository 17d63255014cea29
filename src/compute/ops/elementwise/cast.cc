#include "compute/ops/elementwise/cast.h"

#include <stdexcept>

namespace leat::ops {

std::vector<TensorType> Cast::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  if (inputs[0].dtype == to) throw std::invalid_argument("input is " + std::string(Name(to)) + " already");
  return {{to, inputs[0].shape}};
}

std::string Cast::attributes() const {
  return to == DType::kF32 ? "" : "to=" + std::string(Name(to));
}

}  // namespace leat::ops
