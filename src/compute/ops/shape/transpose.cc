#include "compute/ops/shape/transpose.h"

#include <stdexcept>

namespace leat::ops {

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

}  // namespace leat::ops
