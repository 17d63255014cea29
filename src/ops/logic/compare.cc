#include "ops/logic/logic.h"

#include <stdexcept>

#include "ops/shape/broadcast.h"

namespace leat::ops {

std::vector<TensorType> CompareOp::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  if (inputs[0].dtype != inputs[1].dtype || inputs[0].dtype == DType::kBf16) {
    throw std::invalid_argument("inputs are " + inputs[0].ToString() + " and " + inputs[1].ToString() +
                                "; must have the same type, f32 or whole numbers");
  }
  return {{DType::kU8, BroadcastShape(inputs[0].shape, inputs[1].shape)}};
}

InputGrads CompareOp::Gradient(Graph&, const Node&, OutputGrads) const {
  return {std::nullopt, std::nullopt};
}

std::vector<TensorType> IsFinite::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  graph::CheckF32(inputs);
  return {{DType::kU8, inputs[0].shape}};
}

InputGrads IsFinite::Gradient(Graph&, const Node&, OutputGrads) const {
  return {std::nullopt};
}

}  // namespace leat::ops
