#include "compute/ops/logic/logic.h"

#include <stdexcept>

#include "compute/ops/shape/broadcast.h"

namespace leat::ops {

std::vector<TensorType> CompareOp::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  if (inputs[0].dtype != inputs[1].dtype || inputs[0].dtype == DType::kBf16) {
    throw std::invalid_argument("inputs are " + inputs[0].ToString() + " and " + inputs[1].ToString() +
                                "; must have the same type, f32 or whole numbers");
  }
  return {{DType::kU8, BroadcastShape(inputs[0].shape, inputs[1].shape)}};
}

std::vector<TensorType> IsFinite::Infer(Types inputs) const {
  graph::CheckF32(inputs, 1);
  return {{DType::kU8, inputs[0].shape}};
}

std::vector<TensorType> LogicalOp::Infer(Types inputs) const {
  graph::CheckTypes(inputs, DType::kU8, 2);
  return {{DType::kU8, BroadcastShape(inputs[0].shape, inputs[1].shape)}};
}

std::vector<TensorType> LogicalNot::Infer(Types inputs) const {
  graph::CheckTypes(inputs, DType::kU8, 1);
  return {inputs[0]};
}

std::vector<TensorType> Where::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 3);
  if (inputs[0].dtype != DType::kU8) {
    throw std::invalid_argument("the condition is " + inputs[0].ToString() + "; must be u8");
  }
  if (inputs[1].dtype != inputs[2].dtype) {
    throw std::invalid_argument("the branches are " + inputs[1].ToString() + " and " + inputs[2].ToString() +
                                "; must have the same type");
  }
  const Shape both = BroadcastShape(inputs[1].shape, inputs[2].shape);
  return {{inputs[1].dtype, BroadcastShape(inputs[0].shape, both)}};
}

InputGrads Where::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value condition = node.inputs[0], dy = *output_grads[0];
  const Value zero = graph.Make<Constant>({}, 0.0f);
  return {std::nullopt,
          ReduceToShape(graph, graph.Make<Where>({condition, dy, zero}), graph.shape(node.inputs[1])),
          ReduceToShape(graph, graph.Make<Where>({condition, zero, dy}), graph.shape(node.inputs[2]))};
}

}  // namespace leat::ops
