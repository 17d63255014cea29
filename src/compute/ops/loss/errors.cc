#include "compute/ops/loss/errors.h"

#include <stdexcept>

#include "compute/ops/activation/activation.h"
#include "compute/ops/elementwise/arithmetic.h"

namespace leat::ops {

InputGrads SquaredError::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value difference = graph.Make<Sub>({node.inputs[0], node.inputs[1]});
  const Value dp = graph.Make<Mul>({*output_grads[0], graph.Make<Scale>({difference}, 2.0f)});
  return {dp, graph.Make<Neg>({dp})};
}

InputGrads AbsoluteError::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value sign = graph.Make<Sign>({graph.Make<Sub>({node.inputs[0], node.inputs[1]})});
  const Value dp = graph.Make<Mul>({*output_grads[0], sign});
  return {dp, graph.Make<Neg>({dp})};
}

std::vector<TensorType> Huber::Infer(Types inputs) const {
  if (!(delta > 0)) throw std::invalid_argument("delta " + graph::ToString(delta) + " must be above 0");
  return SameShapeOp::Infer(inputs);
}

InputGrads Huber::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value difference = graph.Make<Sub>({node.inputs[0], node.inputs[1]});
  const Value slope = graph.Make<Clip>({difference}, -delta, delta);
  const Value dp = graph.Make<Mul>({*output_grads[0], slope});
  return {dp, graph.Make<Neg>({dp})};
}

InputGrads SigmoidCrossEntropy::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value x = node.inputs[0], t = node.inputs[1], dy = *output_grads[0];
  const Value dx = graph.Make<Mul>({dy, graph.Make<Sub>({graph.Make<Sigmoid>({x}), t})});
  return {dx, graph.Make<Neg>({graph.Make<Mul>({dy, x})})};
}

}  // namespace leat::ops
