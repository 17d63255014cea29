#include "compute/ops/index/gather.h"

#include <stdexcept>

#include "compute/ops/shape/axis.h"

namespace leat::ops {
namespace {

Shape GatheredShape(const Shape& x, const Shape& indices, int axis) {
  const size_t at = AxisOf(axis, x.rank());
  const auto sizes = x.sizes();
  std::vector<int64_t> gathered(sizes.begin(), sizes.begin() + static_cast<ptrdiff_t>(at));
  gathered.insert(gathered.end(), indices.sizes().begin(), indices.sizes().end());
  gathered.insert(gathered.end(), sizes.begin() + static_cast<ptrdiff_t>(at) + 1, sizes.end());
  return Shape(gathered);
}

}  // namespace

void CheckIndices(const TensorType& indices) {
  if (indices.dtype == DType::kI32 || indices.dtype == DType::kI64) return;
  throw std::invalid_argument("the indices are " + indices.ToString() + "; must be i32 or i64");
}

std::vector<TensorType> Gather::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  CheckIndices(inputs[1]);
  return {{inputs[0].dtype, GatheredShape(inputs[0].shape, inputs[1].shape, axis)}};
}

InputGrads Gather::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Shape& shape = graph.shape(node.inputs[0]);
  return {graph.Make<ScatterAdd>({*output_grads[0], node.inputs[1]}, shape, axis), std::nullopt};
}

std::vector<TensorType> ScatterAdd::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  graph::CheckF32(inputs.first(1));
  CheckIndices(inputs[1]);
  const Shape needed = GatheredShape(shape, inputs[1].shape, axis);
  if (inputs[0].shape != needed) {
    throw std::invalid_argument("x" + inputs[0].shape.ToString() + " with indices" +
                                inputs[1].shape.ToString() + " into " + shape.ToString() + ": x must be " +
                                needed.ToString());
  }
  return {{DType::kF32, shape}};
}

InputGrads ScatterAdd::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Gather>({*output_grads[0], node.inputs[1]}, axis), std::nullopt};
}

std::string ScatterAdd::attributes() const {
  return "shape=" + shape.ToString() + " axis=" + std::to_string(axis);
}

double ScatterAdd::flops(Types inputs, Types outputs) const {
  return static_cast<double>(inputs[0].shape.elements()) + static_cast<double>(outputs[0].shape.elements());
}

}  // namespace leat::ops
