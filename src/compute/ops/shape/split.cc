#include "compute/ops/shape/split.h"

#include <stdexcept>

#include "compute/ops/shape/axis.h"
#include "compute/ops/shape/concat.h"

namespace leat::ops {

std::vector<TensorType> Split::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  const Shape& shape = inputs[0].shape;
  const size_t at = AxisOf(axis, shape.rank());
  std::vector<TensorType> types;
  int64_t left = shape[at];
  bool fits = !sizes.empty();
  for (int64_t size : sizes) {
    fits = fits && size >= 0 && size <= left;
    if (!fits) break;
    left -= size;
    std::vector<int64_t> piece = SizesOf(shape);
    piece[at] = size;
    types.push_back({inputs[0].dtype, Shape(piece)});
  }
  if (!fits || left != 0) {
    throw std::invalid_argument("sizes " + ListOf(sizes) + " do not add up to axis " + std::to_string(axis) +
                                " of " + shape.ToString());
  }
  return types;
}

InputGrads Split::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  std::vector<Value> parts;
  for (size_t i = 0; i < output_grads.size(); ++i) {
    parts.push_back(output_grads[i] ? *output_grads[i]
                                    : graph.Make<Constant>({}, node.outputs[i].shape, 0.0f));
  }
  return {graph.Make<Concat>(std::move(parts), axis)};
}

std::string Split::attributes() const {
  return "axis=" + std::to_string(axis) + " sizes=" + ListOf(sizes);
}

}  // namespace leat::ops
