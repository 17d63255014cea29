#include "compute/ops/loss/softmax.h"

#include <stdexcept>

#include "compute/ops/elementwise/arithmetic.h"
#include "compute/ops/elementwise/transcendental.h"
#include "compute/ops/shape/reduce.h"

namespace leat::ops {
namespace {

void CheckClasses(const Shape& shape) {
  if (shape.rank() == 0 || shape[shape.rank() - 1] == 0) {
    throw std::invalid_argument("input " + shape.ToString() + " has no elements along its last axis");
  }
}

Value SumOfRows(Graph& graph, Value x) {
  return graph.Make<ReduceSum>({x}, std::vector<int>{-1}, true);
}

}  // namespace

std::vector<TensorType> Softmax::Infer(Types inputs) const {
  std::vector<TensorType> types = UnaryOp::Infer(inputs);
  CheckClasses(inputs[0].shape);
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

std::vector<TensorType> LogSoftmax::Infer(Types inputs) const {
  std::vector<TensorType> types = UnaryOp::Infer(inputs);
  CheckClasses(inputs[0].shape);
  return types;
}

InputGrads LogSoftmax::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  // dx = dy - softmax(x) Σ dy, and e to the output is the softmax.
  const Value dy = *output_grads[0];
  const Value softmax = graph.Make<Exp>({Value{node.index, 0}});
  return {graph.Make<Sub>({dy, graph.Make<Mul>({softmax, SumOfRows(graph, dy)})})};
}

}  // namespace leat::ops
