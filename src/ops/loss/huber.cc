#include "ops/loss/huber.h"

#include <stdexcept>

#include "ops/activation/activation.h"
#include "ops/elementwise/arithmetic.h"

namespace leat::ops {

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

}  // namespace leat::ops
