#include "compute/ops/shape/concat.h"

#include <stdexcept>

#include "compute/ops/shape/axis.h"
#include "compute/ops/shape/slice.h"

namespace leat::ops {
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

}  // namespace leat::ops
