#include "compute/ops/sequence/lstm.h"

namespace leat::ops {

std::vector<TensorType> Lstm::Infer(Types inputs) const {
  const auto [time, batch, units] = Check(inputs, 2, 4, 2);
  const TensorType sequence{DType::kF32, {batch, time, units}}, state{DType::kF32, {batch, units}};
  const TensorType steps{DType::kF32, {time, batch, units}};
  return {sequence, state, state, inputs[0], steps, steps};
}

InputGrads Lstm::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value gates{node.index, 3}, cells{node.index, 4}, states{node.index, 5};
  std::vector<Value> kept = {gates, node.inputs[1], cells};
  if (options.lengths) kept.push_back(node.inputs[2]);
  unsigned given = 0;
  kept = WithGradients(std::move(kept), output_grads, &given);
  const Value dz = graph.Make<LstmGrad>(std::move(kept), options, given);
  InputGrads grads = {dz, SumOfProducts(graph, states, dz)};
  if (options.lengths) grads.push_back(std::nullopt);
  if (options.initial) {
    grads.push_back(Value{dz.node, 1});
    grads.push_back(Value{dz.node, 2});
  }
  return grads;
}

std::vector<TensorType> LstmGrad::Infer(Types inputs) const {
  CheckCount(inputs, 3);
  std::vector<TensorType> outputs = {inputs[0]};
  const Shape& cells = inputs[2].shape;
  const TensorType state{DType::kF32, {cells[1], cells[2]}};
  if (options.initial) outputs.insert(outputs.end(), 2, state);
  return outputs;
}

}  // namespace leat::ops
