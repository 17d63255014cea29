#include "ops/convolution/max_pool.h"

#include <stdexcept>

namespace leat::ops {
namespace {

void CheckIndex(const PoolAttributes& attr, const TensorType& index, const Shape& y) {
  const TensorType expected{WindowIndexType(attr.kernel), y};
  if (index == expected) return;
  throw std::invalid_argument("index is " + index.ToString() + "; must be " + expected.ToString());
}

}  // namespace

DType WindowIndexType(const Pair& kernel) {
  return kernel.height <= 256 / kernel.width ? DType::kU8 : DType::kI32;
}

std::vector<TensorType> MaxPool::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  graph::CheckF32(inputs);
  const Shape y = PooledShape(attr, inputs[0].shape);
  return {{DType::kF32, y}, {WindowIndexType(attr.kernel), y}};
}

InputGrads MaxPool::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  if (!output_grads[0]) return {std::nullopt};
  return {graph.Make<MaxPoolGrad>({*output_grads[0], Value{node.index, 1}}, attr,
                                  ImageSize(graph.shape(node.inputs[0])))};
}

double MaxPool::flops(Types, Types outputs) const {
  return PoolFlops(attr, outputs[0].shape);
}

std::vector<TensorType> MaxPoolGrad::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  graph::CheckF32(inputs.first(1));
  const Shape x = UnpooledShape(attr, inputs[0].shape, input);
  CheckIndex(attr, inputs[1], inputs[0].shape);
  return {{DType::kF32, x}};
}

InputGrads MaxPoolGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<MaxPoolGather>({*output_grads[0], node.inputs[1]}, attr), std::nullopt};
}

double MaxPoolGrad::flops(Types inputs, Types) const {
  return PoolFlops(attr, inputs[0].shape);
}

std::vector<TensorType> MaxPoolGather::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  graph::CheckF32(inputs.first(1));
  const Shape y = PooledShape(attr, inputs[0].shape);
  CheckIndex(attr, inputs[1], y);
  return {{DType::kF32, y}};
}

InputGrads MaxPoolGather::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<MaxPoolGrad>({*output_grads[0], node.inputs[1]}, attr,
                                  ImageSize(graph.shape(node.inputs[0]))),
          std::nullopt};
}

}  // namespace leat::ops
