#include "compute/ops/sequence/lengths.h"

#include <stdexcept>

namespace leat::ops {

std::vector<TensorType> SequenceLengths::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  if (inputs[0].dtype != DType::kI32 || inputs[0].shape.rank() != 2) {
    throw std::invalid_argument("ids are " + inputs[0].ToString() + "; must be i32[batch, time]");
  }
  return {{DType::kI32, {inputs[0].shape[0]}}};
}

}  // namespace leat::ops
