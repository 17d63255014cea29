#include "compute/ops/loss/softmax_cross_entropy.h"

#include <stdexcept>

#include "compute/ops/elementwise/arithmetic.h"
#include "compute/ops/loss/softmax.h"
#include "compute/ops/shape/reduce.h"

namespace leat::ops {
namespace {

void CheckShapes(std::string_view matrix, const Shape& logits, const Shape& labels) {
  if (logits.rank() == 2 && logits[1] > 0 && labels.rank() == 1 && labels[0] == logits[0]) return;
  throw std::invalid_argument(std::string(matrix) + logits.ToString() + " and labels" + labels.ToString() +
                              ": must be [batch, classes] and [batch]");
}

}  // namespace

std::vector<TensorType> SoftmaxCrossEntropy::Infer(Types inputs) const {
  graph::CheckF32(inputs, 2);
  CheckShapes("logits", inputs[0].shape, inputs[1].shape);
  return {inputs[1], inputs[0]};
}

InputGrads SoftmaxCrossEntropy::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value probabilities{node.index, 1};
  InputGrads grads(2);
  if (output_grads[0]) {
    grads[0] = graph.Make<SoftmaxCrossEntropyGrad>({probabilities, node.inputs[1], *output_grads[0]});
  }
  if (output_grads[1]) {
    const Value through = graph.Make<SoftmaxGrad>({probabilities, *output_grads[1]});
    grads[0] = grads[0] ? graph.Make<AddN>({*grads[0], through}) : through;
  }
  return grads;
}

std::vector<TensorType> SoftmaxCrossEntropyGrad::Infer(Types inputs) const {
  graph::CheckF32(inputs, 3);
  CheckShapes("probabilities", inputs[0].shape, inputs[1].shape);
  if (inputs[2].shape != inputs[1].shape) {
    throw std::invalid_argument("labels" + inputs[1].shape.ToString() + " and dloss" +
                                inputs[2].shape.ToString() + " differ");
  }
  return {inputs[0]};
}

InputGrads SoftmaxCrossEntropyGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // f(p, dloss) = (p - onehot) dloss is linear in p and in dloss, and zero in rows without a valid label. So
  // the derivatives are differences and row sums of f itself, and zero in the same rows.
  const Value p = node.inputs[0], labels = node.inputs[1], dloss = node.inputs[2], dz = *output_grads[0];
  const Value zeros = graph.Make<Constant>({}, graph.shape(p), 0.0f);
  const Value ones = graph.Make<Constant>({}, graph.shape(dloss), 1.0f);
  const Value by_p = graph.Make<Sub>({graph.Make<SoftmaxCrossEntropyGrad>({dz, labels, dloss}),
                                      graph.Make<SoftmaxCrossEntropyGrad>({zeros, labels, dloss})});
  const Value slope = graph.Make<SoftmaxCrossEntropyGrad>({p, labels, ones});
  return {by_p, std::nullopt, graph.Make<ReduceSum>({graph.Make<Mul>({dz, slope})}, std::vector<int>{1})};
}

}  // namespace leat::ops
