#include "ops/shape/slice.h"

#include <stdexcept>

namespace leat::ops {
namespace {

std::string List(const std::vector<int64_t>& values) {
  std::string text;
  for (int64_t v : values) text += (text.empty() ? "" : ",") + std::to_string(v);
  return text;
}

}  // namespace

std::vector<TensorType> Slice::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  graph::CheckF32(inputs);
  const Shape& shape = inputs[0].shape;
  bool fits = begin.size() == shape.rank() && size.size() == shape.rank();
  for (size_t i = 0; fits && i < shape.rank(); ++i) {
    fits = begin[i] >= 0 && size[i] >= 0 && begin[i] <= shape[i] && size[i] <= shape[i] - begin[i];
  }
  if (!fits) throw std::invalid_argument(attributes() + " reaches out of " + shape.ToString());
  return {{DType::kF32, Shape(size)}};
}

InputGrads Slice::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Shape& shape = graph.shape(node.inputs[0]);
  std::vector<int64_t> after(begin.size());
  for (size_t i = 0; i < after.size(); ++i) after[i] = shape[i] - begin[i] - size[i];
  return {graph.Make<Pad>({*output_grads[0]}, begin, after)};
}

std::string Slice::attributes() const {
  return "begin=" + List(begin) + " size=" + List(size);
}

std::vector<TensorType> Pad::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  graph::CheckF32(inputs);
  const Shape& shape = inputs[0].shape;
  bool fits = before.size() == shape.rank() && after.size() == shape.rank();
  std::vector<int64_t> sizes;
  for (size_t i = 0; fits && i < shape.rank(); ++i) {
    // Each bounded first, so that the sum cannot overflow.
    fits = before[i] >= 0 && after[i] >= 0 && before[i] <= Shape::kMaxElements &&
           after[i] <= Shape::kMaxElements;
    if (fits) sizes.push_back(before[i] + shape[i] + after[i]);
  }
  if (!fits) throw std::invalid_argument(attributes() + " does not fit " + shape.ToString());
  return {{DType::kF32, Shape(sizes)}};
}

InputGrads Pad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Shape& shape = graph.shape(node.inputs[0]);
  return {graph.Make<Slice>({*output_grads[0]}, before,
                            std::vector<int64_t>(shape.sizes().begin(), shape.sizes().end()))};
}

std::string Pad::attributes() const {
  return "before=" + List(before) + " after=" + List(after);
}

}  // namespace leat::ops
