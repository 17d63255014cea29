#include "compute/ops/sequence/recurrent.h"

#include <bit>
#include <stdexcept>

#include "compute/ops/matrix/matrix.h"
#include "compute/ops/sequence/cells.h"
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

}  // namespace leat::ops
