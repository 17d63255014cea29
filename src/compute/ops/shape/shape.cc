#include "compute/ops/shape/shape.h"

#include <stdexcept>

#include "compute/ops/shape/slice.h"

namespace leat::ops {

size_t AxisOf(int axis, size_t rank) {
  const int64_t at = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
  if (at < 0 || at >= static_cast<int64_t>(rank)) {
    throw std::invalid_argument("axis " + std::to_string(axis) + " is out of range for rank " +
                                std::to_string(rank));
  }
  return static_cast<size_t>(at);
}

std::vector<int64_t> SizesOf(const Shape& shape) {
  return {shape.sizes().begin(), shape.sizes().end()};
}

std::string ListOf(const std::vector<int64_t>& values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) text += (i ? "," : "") + std::to_string(values[i]);
  return text;
}

AxisView ViewAlong(const Shape& shape, size_t axis) {
  const auto sizes = shape.sizes();
  return {.outer = Shape(sizes.first(axis)).elements(),
          .size = sizes[axis],
          .inner = Shape(sizes.subspan(axis + 1)).elements()};
}

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

std::vector<TensorType> Transpose::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  const Shape& shape = inputs[0].shape;
  std::vector<bool> seen(shape.rank());
  std::vector<int64_t> sizes;
  for (int axis : permutation) {
    const auto at = static_cast<size_t>(axis);
    if (axis < 0 || at >= shape.rank() || seen[at]) break;
    seen[at] = true;
    sizes.push_back(shape[at]);
  }
  if (sizes.size() != permutation.size() || sizes.size() != shape.rank()) {
    throw std::invalid_argument(attributes() + " does not name each axis of " + shape.ToString() + " once");
  }
  return {{inputs[0].dtype, Shape(sizes)}};
}

InputGrads Transpose::Gradient(Graph& graph, const Node&, OutputGrads output_grads) const {
  std::vector<int> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i)
    inverse[static_cast<size_t>(permutation[i])] = static_cast<int>(i);
  return {graph.Make<Transpose>({*output_grads[0]}, inverse)};
}

std::string Transpose::attributes() const {
  std::string text = "permutation=";
  for (size_t i = 0; i < permutation.size(); ++i) text += (i ? "," : "") + std::to_string(permutation[i]);
  return text;
}

std::vector<TensorType> Concat::Infer(Types inputs) const {
  if (inputs.empty()) throw std::invalid_argument("takes at least one input");
  std::vector<int64_t> sizes = SizesOf(inputs[0].shape);
  const size_t at = AxisOf(axis, sizes.size());
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].dtype != inputs[0].dtype) {
      throw std::invalid_argument("inputs are " + inputs[0].ToString() + " and " + inputs[i].ToString() +
                                  "; must have the same type");
    }
    std::vector<int64_t> other = SizesOf(inputs[i].shape);
    if (other.size() == sizes.size()) {
      // Each size is below 2^40 and inputs are few, so the sum cannot overflow.
      const int64_t sum = sizes[at] + other[at];
      sizes[at] = other[at] = sum;
    }
    if (other != sizes) {
      throw std::invalid_argument(inputs[0].shape.ToString() + " and " + inputs[i].shape.ToString() +
                                  " differ along an axis other than " + std::to_string(axis));
    }
    // Checks the product before the next size is added.
    static_cast<void>(Shape(sizes));
  }
  return {{inputs[0].dtype, Shape(sizes)}};
}

InputGrads Concat::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  InputGrads grads;
  std::vector<int64_t> begin(graph.shape(*output_grads[0]).rank(), 0);
  const size_t at = AxisOf(axis, begin.size());
  for (Value input : node.inputs) {
    const Shape& shape = graph.shape(input);
    grads.push_back(graph.Make<Slice>({*output_grads[0]}, begin, SizesOf(shape)));
    begin[at] += shape[at];
  }
  return grads;
}

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
