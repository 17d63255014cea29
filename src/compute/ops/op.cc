#include "compute/ops/op.h"

#include <stdexcept>

#include "compute/ops/shape/broadcast.h"

namespace leat::ops {

std::vector<TensorType> UnaryOp::Infer(Types inputs) const {
  graph::CheckF32(inputs, 1);
  return {inputs[0]};
}

std::vector<TensorType> BinaryOp::Infer(Types inputs) const {
  graph::CheckF32(inputs, 2);
  return {{DType::kF32, BroadcastShape(inputs[0].shape, inputs[1].shape)}};
}

std::vector<TensorType> SameShapeOp::Infer(Types inputs) const {
  graph::CheckF32(inputs, 2);
  if (inputs[0].shape != inputs[1].shape) {
    throw std::invalid_argument("shapes " + inputs[0].shape.ToString() + " and " +
                                inputs[1].shape.ToString() + " differ");
  }
  return {inputs[0]};
}

}  // namespace leat::ops
