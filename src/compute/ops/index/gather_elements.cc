#include "compute/ops/index/gather_elements.h"

#include <stdexcept>

#include "compute/ops/index/gather.h"
#include "compute/ops/shape/axis.h"

namespace leat::ops {
namespace {

void CheckFits(const Shape& shape, const Shape& indices, int axis) {
  const size_t at = AxisOf(axis, shape.rank());
  bool fits = indices.rank() == shape.rank();
  for (size_t i = 0; fits && i < shape.rank(); ++i) fits = i == at || indices[i] <= shape[i];
  if (!fits) {
    throw std::invalid_argument("indices" + indices.ToString() + " exceed " + shape.ToString() +
                                " along an axis other than " + std::to_string(axis));
  }
}

}  // namespace

std::vector<TensorType> GatherElements::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  CheckIndices(inputs[1]);
  CheckFits(inputs[0].shape, inputs[1].shape, axis);
  return {{inputs[0].dtype, inputs[1].shape}};
}

InputGrads GatherElements::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Shape& shape = graph.shape(node.inputs[0]);
  return {graph.Make<ScatterElementsAdd>({*output_grads[0], node.inputs[1]}, shape, axis), std::nullopt};
}

std::vector<TensorType> ScatterElementsAdd::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 2);
  graph::CheckF32(inputs.first(1));
  CheckIndices(inputs[1]);
  if (inputs[0].shape != inputs[1].shape) {
    throw std::invalid_argument("x" + inputs[0].shape.ToString() + " and indices" +
                                inputs[1].shape.ToString() + " differ");
  }
  CheckFits(shape, inputs[1].shape, axis);
  return {{DType::kF32, shape}};
}

InputGrads ScatterElementsAdd::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<GatherElements>({*output_grads[0], node.inputs[1]}, axis), std::nullopt};
}

std::string ScatterElementsAdd::attributes() const {
  return "shape=" + shape.ToString() + " axis=" + std::to_string(axis);
}

}  // namespace leat::ops
