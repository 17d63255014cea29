#include "compute/ops/sequence/recurrent.h"

#include <bit>
#include <stdexcept>

#include "compute/ops/matrix/matrix.h"
#include "compute/ops/shape/reduce.h"
#include "compute/ops/shape/shape.h"

namespace leat::ops {

namespace {

std::string Text(const RecurrentOptions& o) {
  std::string text;
  if (o.reverse) text += " reverse=true";
  if (o.lengths) text += " lengths=true";
  if (o.initial) text += " initial=true";
  return text.empty() ? text : text.substr(1);
}

// Counts one matrix product of the state per step.
double Flops(Types types) {
  const Shape& z = types[0].shape;
  return static_cast<double>(z.elements()) * (2.0 * static_cast<double>(types[1].shape[0]) + 10);
}

// z = x Wx + b, time first.
Value Project(Graph& graph, const RecurrentInputs& in) {
  const Shape& x = graph.shape(in.x);
  if (x.rank() != 3) throw std::invalid_argument("x " + x.ToString() + " must be [batch, time, inputs]");
  const Value by_time = graph.Make<Transpose>({in.x}, std::vector<int>{1, 0, 2});
  const Value rows = graph.Make<Reshape>({by_time}, Shape{x[0] * x[1], x[2]});
  Value z = graph.Make<MatMul>({rows, in.input_weight});
  if (in.bias) z = graph.Make<BiasAdd>({z, *in.bias});
  return graph.Make<Reshape>({z}, Shape{x[1], x[0], graph.shape(z)[1]});
}

// Appends the optional inputs and returns the matching options.
RecurrentOptions AddOptional(const RecurrentInputs& in, bool reverse, std::vector<Value>* inputs) {
  if (in.lengths) inputs->push_back(*in.lengths);
  if (in.hidden) inputs->push_back(*in.hidden);
  if (in.hidden && in.cell) inputs->push_back(*in.cell);
  return {.reverse = reverse, .lengths = in.lengths.has_value(), .initial = in.hidden.has_value()};
}

}  // namespace

std::string RecurrentOp::attributes() const {
  return Text(options);
}

double RecurrentOp::flops(Types inputs, Types) const {
  return Flops(inputs);
}

RecurrentSizes RecurrentOp::Check(Types inputs, size_t fixed, int64_t gates, size_t states) const {
  const size_t count = fixed + (options.lengths ? 1 : 0) + (options.initial ? states : 0);
  graph::CheckInputCount(inputs, count);
  const Shape &z = inputs[0].shape, &wh = inputs[1].shape;
  const bool fits = z.rank() == 3 && wh.rank() == 2 && z[2] == wh[1] && wh[0] <= Shape::kMaxElements &&
                    wh[1] % gates == 0 && wh[1] / gates == wh[0];
  if (!fits) {
    const std::string width = gates == 1 ? "units]" : std::to_string(gates) + " units]";
    throw std::invalid_argument("z" + z.ToString() + " and wh" + wh.ToString() + ": must be [time, batch, " +
                                width + " and [units, " + width);
  }
  for (size_t i = 0; i < count; ++i) {
    const bool lengths = options.lengths && i == fixed;
    if (!lengths) {
      graph::CheckF32(inputs.subspan(i, 1));
    } else if (inputs[i] != TensorType{DType::kI32, {z[1]}}) {
      throw std::invalid_argument("lengths are " + inputs[i].ToString() + "; must be i32" +
                                  Shape{z[1]}.ToString());
    }
    if (i >= fixed && !lengths && inputs[i].shape != Shape{z[1], wh[0]}) {
      throw std::invalid_argument("initial state " + inputs[i].shape.ToString() + " must be " +
                                  Shape{z[1], wh[0]}.ToString());
    }
  }
  return {z[0], z[1], wh[0]};
}

std::string RecurrentGradOp::attributes() const {
  std::string text = Text(options);
  text += text.empty() ? "given=" : " given=";
  return text + std::to_string(given);
}

double RecurrentGradOp::flops(Types inputs, Types) const {
  return Flops(inputs);
}

void RecurrentGradOp::CheckCount(Types inputs, size_t fixed) const {
  graph::CheckInputCount(inputs,
                         fixed + (options.lengths ? 1 : 0) + static_cast<size_t>(std::popcount(given)));
}

size_t RecurrentGradOp::InputOf(size_t output, size_t inputs) const {
  return inputs - static_cast<size_t>(std::popcount(given >> output));
}

std::vector<Value> WithGradients(std::vector<Value> kept, OutputGrads grads, unsigned* given) {
  *given = 0;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i]) continue;
    kept.push_back(*grads[i]);
    *given |= 1u << i;
  }
  return kept;
}

Value SumOfProducts(Graph& graph, Value left, Value right) {
  const auto matrix = [&](Value v) {
    const Shape& s = graph.shape(v);
    return graph.Make<Reshape>({v}, Shape{s[0] * s[1], s[2]});
  };
  const Value a = matrix(left);
  return graph.Make<MatMul>({a, matrix(right)}, true, false);
}

RecurrentOutputs AddLstm(Graph& graph, const RecurrentInputs& in, bool reverse) {
  std::vector<Value> inputs = {Project(graph, in), in.state_weight};
  const RecurrentOptions options = AddOptional(in, reverse, &inputs);
  const Value y = graph.Make<Lstm>(inputs, options);
  return {y, {y.node, 1}, Value{y.node, 2}};
}

RecurrentOutputs AddGru(Graph& graph, const RecurrentInputs& in, std::optional<Value> new_bias,
                        bool reverse) {
  std::vector<Value> inputs = {Project(graph, in), in.state_weight};
  if (new_bias) inputs.push_back(*new_bias);
  const RecurrentOptions options = AddOptional(in, reverse, &inputs);
  const Value y = graph.Make<Gru>(inputs, options, new_bias.has_value());
  return {y, {y.node, 1}, {}};
}

RecurrentOutputs AddRnn(Graph& graph, const RecurrentInputs& in, bool relu, bool reverse) {
  std::vector<Value> inputs = {Project(graph, in), in.state_weight};
  const RecurrentOptions options = AddOptional(in, reverse, &inputs);
  const Value y = graph.Make<Rnn>(inputs, options, relu);
  return {y, {y.node, 1}, {}};
}

std::vector<TensorType> SequenceLengths::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  if (inputs[0].dtype != DType::kI32 || inputs[0].shape.rank() != 2) {
    throw std::invalid_argument("ids are " + inputs[0].ToString() + "; must be i32[batch, time]");
  }
  return {{DType::kI32, {inputs[0].shape[0]}}};
}

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
