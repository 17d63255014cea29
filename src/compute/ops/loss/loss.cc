#include "compute/ops/loss/loss.h"

#include <stdexcept>

#include "compute/ops/activation/activation.h"
#include "compute/ops/elementwise/elementwise.h"
#include "compute/ops/shape/reduce.h"

namespace leat::ops {

namespace {

Value SumOfRows(Graph& graph, Value x) {
  return graph.Make<ReduceSum>({x}, std::vector<int>{-1}, true);
}

}  // namespace

std::vector<TensorType> OfClasses::Infer(Types inputs) const {
  std::vector<TensorType> types = UnaryOp::Infer(inputs);
  const Shape& shape = inputs[0].shape;
  if (shape.rank() == 0 || shape[shape.rank() - 1] == 0) {
    throw std::invalid_argument("input " + shape.ToString() + " has no elements along its last axis");
  }
  return types;
}

InputGrads Softmax::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<SoftmaxGrad>({Value{node.index, 0}, *output_grads[0]})};
}

InputGrads SoftmaxGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // z = y (dy - s) with s the sum of y dy. With respect to y: dz (dy - s) - dy Σ dz y; with respect to dy:
  // the same function of y and dz.
  const Value y = node.inputs[0], dy = node.inputs[1], dz = *output_grads[0];
  const Value s = SumOfRows(graph, graph.Make<Mul>({y, dy}));
  const Value direct = graph.Make<Mul>({dz, graph.Make<Sub>({dy, s})});
  const Value through_sum = graph.Make<Mul>({dy, SumOfRows(graph, graph.Make<Mul>({dz, y}))});
  return {graph.Make<Sub>({direct, through_sum}), graph.Make<SoftmaxGrad>({y, dz})};
}

InputGrads LogSoftmax::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // dx = dy - softmax(x) Σ dy, and e to the output is the softmax.
  const Value dy = *output_grads[0];
  const Value softmax = graph.Make<Exp>({Value{node.index, 0}});
  return {graph.Make<Sub>({dy, graph.Make<Mul>({softmax, SumOfRows(graph, dy)})})};
}

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

InputGrads Shares::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // (dy - Σ dy y) / Σ w; dy if the sum is 0, since then nothing was divided.
  const Value w = node.inputs[0], y{node.index, 0}, dy = *output_grads[0];
  const Value sum = graph.Make<ReduceSum>({w});
  const Value mean = graph.Make<ReduceSum>({graph.Make<Mul>({dy, y})});
  const Value none = graph.Make<Equal>({sum, graph.Make<Constant>({}, 0.0f)});
  const Value slope = graph.Make<Div>({graph.Make<Sub>({dy, mean}), sum});
  return {graph.Make<Where>({none, dy, slope})};
}

}  // namespace leat::ops
