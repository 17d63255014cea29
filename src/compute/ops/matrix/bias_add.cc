#include "compute/ops/matrix/bias_add.h"

#include <stdexcept>

#include "compute/ops/shape/broadcast.h"

namespace leat::ops {

std::vector<TensorType> BiasAdd::Infer(Types inputs) const {
  graph::CheckF32(inputs, 2);
  const Shape &x = inputs[0].shape, &b = inputs[1].shape;
  if (x.rank() == 0 || b.rank() != 1 || b[0] != x[x.rank() - 1]) {
    throw std::invalid_argument("x" + x.ToString() + " + b" + b.ToString() +
                                ": the bias must have one axis, as long as the last axis of x");
  }
  return {inputs[0]};
}

InputGrads BiasAdd::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value dy = *output_grads[0];
  return {dy, ReduceToShape(graph, dy, graph.shape(node.inputs[1]))};
}

}  // namespace leat::ops
