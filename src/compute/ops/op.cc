#include "compute/ops/op.h"

#include <stdexcept>

#include "compute/graph/graph.h"
#include "compute/ops/elementwise/elementwise.h"
#include "compute/ops/shape/reduce.h"
#include "compute/ops/shape/shape.h"

namespace leat::ops {

std::vector<TensorType> UnaryOp::Infer(Types inputs) const {
  graph::CheckF32(inputs, 1);
  return {inputs[0]};
}

std::vector<TensorType> BinaryOp::Infer(Types inputs) const {
  graph::CheckF32(inputs, 2);
  return {{DType::kF32, BroadcastShape(inputs[0].shape, inputs[1].shape)}};
}

std::vector<TensorType> SameShapeOp::Infer(Types inputs) const {
  graph::CheckF32(inputs, 2);
  if (inputs[0].shape != inputs[1].shape) {
    throw std::invalid_argument("shapes " + inputs[0].shape.ToString() + " and " +
                                inputs[1].shape.ToString() + " differ");
  }
  return {inputs[0]};
}

InputGrads ComposedGradient(Graph& graph, const Node& node, OutputGrads output_grads,
                            const Composition& compose) {
  // Give each input its own view, so that the gradient covers only the use by this node and no other use of
  // the same tensor.
  std::vector<Value> inputs, wrt;
  for (Value v : node.inputs) {
    const bool differentiable = graph.type(v).dtype == DType::kF32;
    inputs.push_back(differentiable ? graph.Make<Reshape>({v}, graph.shape(v)) : v);
    if (differentiable) wrt.push_back(inputs.back());
  }
  const std::vector<Value> outputs = compose(graph, inputs);
  std::vector<Value> parts;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!output_grads[i]) continue;
    parts.push_back(graph.Make<ReduceSum>({graph.Make<Mul>({outputs[i], *output_grads[i]})}));
  }
  const std::vector<Value> grads = graph::Gradients(graph, graph.Make<AddN>(parts), wrt);
  InputGrads result(inputs.size());
  auto next = grads.begin();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (graph.type(inputs[i]).dtype == DType::kF32) result[i] = *next++;
  }
  return result;
}

}  // namespace leat::ops
