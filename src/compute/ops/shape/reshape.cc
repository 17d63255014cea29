#include "compute/ops/shape/reshape.h"

#include <stdexcept>

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

}  // namespace leat::ops
