#include "compute/ops/sequence/cells.h"

#include <stdexcept>

#include "compute/ops/shape/reduce.h"
#include "compute/ops/shape/shape.h"
#include "compute/ops/shape/slice.h"

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

namespace {

std::string WithReset(std::string text, bool before) {
  return text + (text.empty() ? "" : " ") + "linear_before_reset=" + (before ? "true" : "false");
}

// Slices parts [first, first + count) out of the last axis, each `units` wide.
Value Parts(Graph& graph, Value v, int64_t first, int64_t count, int64_t units) {
  const Shape& s = graph.shape(v);
  return graph.Make<Slice>({v}, std::vector<int64_t>{0, 0, first * units},
                           std::vector<int64_t>{s[0], s[1], count * units});
}

}  // namespace

std::vector<TensorType> Gru::Infer(Types inputs) const {
  const size_t fixed = linear_before_reset ? 3 : 2;
  const auto [time, batch, units] = Check(inputs, fixed, 3, 1);
  if (linear_before_reset && inputs[2].shape != Shape{units}) {
    throw std::invalid_argument("new_bias " + inputs[2].shape.ToString() + " must be " +
                                Shape{units}.ToString());
  }
  const TensorType sequence{DType::kF32, {batch, time, units}}, state{DType::kF32, {batch, units}};
  const TensorType steps{DType::kF32, {time, batch, units}};
  return {sequence, state, inputs[0], steps, steps};
}

InputGrads Gru::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Value gates{node.index, 2}, inner{node.index, 3}, states{node.index, 4};
  std::vector<Value> kept = {gates, node.inputs[1], inner, states};
  if (options.lengths) kept.push_back(node.inputs[linear_before_reset ? 3 : 2]);
  unsigned given = 0;
  kept = WithGradients(std::move(kept), output_grads, &given);
  const Value dz = graph.Make<GruGrad>(std::move(kept), options, linear_before_reset, given);
  const int64_t units = graph.shape(states)[2];

  InputGrads grads = {dz};
  if (linear_before_reset) {
    const Value by_state{dz.node, 1};
    grads.push_back(SumOfProducts(graph, states, by_state));
    grads.push_back(graph.Make<ReduceSum>({Parts(graph, by_state, 2, 1, units)}, std::vector<int>{0, 1}));
  } else {
    const Value first = SumOfProducts(graph, states, Parts(graph, dz, 0, 2, units));
    const Value last = SumOfProducts(graph, inner, Parts(graph, dz, 2, 1, units));
    grads.push_back(graph.Make<Concat>({first, last}, 1));
  }
  if (options.lengths) grads.push_back(std::nullopt);
  if (options.initial) grads.push_back(Value{dz.node, linear_before_reset ? 2u : 1u});
  return grads;
}

std::string Gru::attributes() const {
  return WithReset(RecurrentOp::attributes(), linear_before_reset);
}

std::vector<TensorType> GruGrad::Infer(Types inputs) const {
  CheckCount(inputs, 4);
  std::vector<TensorType> outputs = {inputs[0]};
  if (linear_before_reset) outputs.push_back(inputs[0]);
  const Shape& states = inputs[3].shape;
  if (options.initial) outputs.push_back({DType::kF32, {states[1], states[2]}});
  return outputs;
}

std::string GruGrad::attributes() const {
  return WithReset(RecurrentGradOp::attributes(), linear_before_reset);
}

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
