#include "ops/logic/logic.h"

#include <stdexcept>

#include "ops/shape/broadcast.h"

namespace leat::ops {

namespace {

void CheckU8(Types inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype == DType::kU8) continue;
    throw std::invalid_argument("input " + std::to_string(i) + " is " + inputs[i].ToString() +
                                "; must be u8");
  }
}

}  // namespace

std::vector<TensorType> LogicalOp::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  CheckU8(inputs);
  return {{DType::kU8, BroadcastShape(inputs[0].shape, inputs[1].shape)}};
}

InputGrads LogicalOp::Gradient(Graph&, const Node&, OutputGrads) const {
  return {std::nullopt, std::nullopt};
}

std::vector<TensorType> LogicalNot::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  CheckU8(inputs);
  return {inputs[0]};
}

InputGrads LogicalNot::Gradient(Graph&, const Node&, OutputGrads) const {
  return {std::nullopt};
}

}  // namespace leat::ops
