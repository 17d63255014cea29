#include "ops/op.h"

#include <stdexcept>

#include "ops/shape/broadcast.h"

namespace leat::ops {

std::vector<TensorType> UnaryOp::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  graph::CheckF32(inputs);
  return {inputs[0]};
}

std::vector<TensorType> BinaryOp::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  graph::CheckF32(inputs);
  return {{DType::kF32, BroadcastShape(inputs[0].shape, inputs[1].shape)}};
}

std::vector<TensorType> SameShapeOp::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  graph::CheckF32(inputs);
  if (inputs[0].shape != inputs[1].shape) {
    throw std::invalid_argument("shapes " + inputs[0].shape.ToString() + " and " +
                                inputs[1].shape.ToString() + " differ");
  }
  return {inputs[0]};
}

}  // namespace leat::ops
