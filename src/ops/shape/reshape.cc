#include "ops/shape/reshape.h"

#include <stdexcept>

#include "ops/shape/axis.h"

namespace leat::ops {

std::vector<TensorType> Reshape::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  if (inputs[0].shape.elements() != shape.elements()) {
    throw std::invalid_argument(inputs[0].shape.ToString() + " has " +
                                std::to_string(inputs[0].shape.elements()) + " elements, " +
                                shape.ToString() + " has " + std::to_string(shape.elements()));
  }
  return {{inputs[0].dtype, shape}};
}

InputGrads Reshape::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Reshape>({*output_grads[0]}, graph.shape(node.inputs[0]))};
}

Value Unsqueeze(Graph& graph, Value x, std::span<const int> axes) {
  const Shape shape = graph.shape(x);
  const size_t rank = shape.rank() + axes.size();
  std::vector<bool> added(rank);
  for (int axis : axes) {
    const size_t at = AxisOf(axis, rank);
    if (added[at]) throw std::invalid_argument("axis " + std::to_string(axis) + " is listed twice");
    added[at] = true;
  }
  std::vector<int64_t> sizes;
  for (size_t i = 0, from = 0; i < rank; ++i) sizes.push_back(added[i] ? 1 : shape[from++]);
  return graph.Make<Reshape>({x}, Shape(sizes));
}

Value Squeeze(Graph& graph, Value x, std::span<const int> axes) {
  const Shape shape = graph.shape(x);
  std::vector<bool> gone(shape.rank());
  for (size_t i = 0; i < shape.rank(); ++i) gone[i] = axes.empty() && shape[i] == 1;
  for (int axis : axes) {
    const size_t at = AxisOf(axis, shape.rank());
    if (shape[at] != 1) {
      throw std::invalid_argument("axis " + std::to_string(axis) + " of " + shape.ToString() +
                                  " is not of size 1");
    }
    gone[at] = true;
  }
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (!gone[i]) sizes.push_back(shape[i]);
  }
  return graph.Make<Reshape>({x}, Shape(sizes));
}

Value Flatten(Graph& graph, Value x, int axis) {
  const Shape shape = graph.shape(x);
  const auto rank = static_cast<int>(shape.rank());
  const size_t at = axis == rank ? shape.rank() : AxisOf(axis, shape.rank());
  const int64_t rows = Shape(shape.sizes().first(at)).elements();
  const int64_t columns = Shape(shape.sizes().subspan(at)).elements();
  return graph.Make<Reshape>({x}, Shape{rows, columns});
}

}  // namespace leat::ops
