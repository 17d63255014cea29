#include "compute/ops/sequence/rnn.h"

namespace leat::ops {
namespace {

std::string WithActivation(std::string text, bool relu) {
  return text + (text.empty() ? "" : " ") + "activation=" + (relu ? "relu" : "tanh");
}

}  // namespace

std::vector<TensorType> Rnn::Infer(Types inputs) const {
  const auto [time, batch, units] = Check(inputs, 2, 1, 1);
  const TensorType sequence{DType::kF32, {batch, time, units}}, state{DType::kF32, {batch, units}};
  return {sequence, state, inputs[0], inputs[0]};
}

InputGrads Rnn::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value gates{node.index, 2}, states{node.index, 3};
  std::vector<Value> kept = {gates, node.inputs[1]};
  if (options.lengths) kept.push_back(node.inputs[2]);
  unsigned given = 0;
  kept = WithGradients(std::move(kept), output_grads, &given);
  const Value dz = graph.Make<RnnGrad>(std::move(kept), options, relu, given);
  InputGrads grads = {dz, SumOfProducts(graph, states, dz)};
  if (options.lengths) grads.push_back(std::nullopt);
  if (options.initial) grads.push_back(Value{dz.node, 1});
  return grads;
}

std::string Rnn::attributes() const {
  return WithActivation(RecurrentOp::attributes(), relu);
}

std::vector<TensorType> RnnGrad::Infer(Types inputs) const {
  CheckCount(inputs, 2);
  std::vector<TensorType> outputs = {inputs[0]};
  const Shape& gates = inputs[0].shape;
  if (options.initial) outputs.push_back({DType::kF32, {gates[1], gates[2]}});
  return outputs;
}

std::string RnnGrad::attributes() const {
  return WithActivation(RecurrentGradOp::attributes(), relu);
}

}  // namespace leat::ops
