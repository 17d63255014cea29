// Recurrent layers and embeddings.
#include <algorithm>

#include "compute/onnx/attributes.h"
#include "compute/onnx/build.h"
#include "compute/ops/ops.h"

namespace leat::onnx {
namespace {

// Elements [begin, begin + size) of the first axis.
Value Rows(Graph& graph, Value x, int64_t begin, int64_t size) {
  const Shape& shape = graph.shape(x);
  if (begin == 0 && size == shape[0]) return x;
  std::vector<int64_t> from(shape.rank()), sizes = ops::SizesOf(shape);
  from[0] = begin;
  sizes[0] = size;
  return graph.Make<ops::Slice>({x}, from, sizes);
}

// Common properties of the recurrent ops.
struct Recurrent {
  Shape x;  // [time, batch, inputs]
  int64_t directions = 1, units = 0, gates = 0;
  bool reverse_first = false;
  Value batch_first;  // x[batch, time, inputs]
  std::optional<Value> lengths;
};

std::string ShapeText(const std::vector<int64_t>& sizes) {
  return Shape(std::span<const int64_t>(sizes)).ToString();
}

void CheckShape(const NodeContext& call, size_t i, const std::vector<int64_t>& sizes) {
  if (call.ShapeOf(i) != Shape(std::span<const int64_t>(sizes))) {
    Fail("input " + std::to_string(i) + " is " + call.ShapeOf(i).ToString() + "; must be " +
         ShapeText(sizes));
  }
}

// Makes x batch first. Undoes a preceding transpose, as exporters write it, instead of adding another.
Value BatchFirst(Graph& graph, Value x) {
  const auto& node = graph.node(x);
  const std::vector<int> swapped = {1, 0, 2};
  const auto* transpose = dynamic_cast<const ops::Transpose*>(node.op.get());
  if (transpose != nullptr && transpose->permutation == swapped) return node.inputs[0];
  return graph.Make<ops::Transpose>({x}, swapped);
}

bool AllZero(const OnnxValue& val) {
  if (!val.known || val.type != DType::kF32) return false;
  return std::ranges::all_of(val.known->as<float>(), [](float x) { return x == 0; });
}

std::optional<Value> LengthsOf(const NodeContext& call, size_t i, const Shape& x) {
  if (!call.Has(i)) return std::nullopt;
  const OnnxValue& val = call.In(i);
  if (val.type == DType::kF32 || val.shape.rank() != 1) Fail("sequence_lens must be integers, one per row");
  if (val.known) {
    const auto lengths = Integers(*val.known);
    if (std::ranges::all_of(lengths, [&](int64_t length) { return length == x[0]; })) return std::nullopt;
  }
  CheckShape(call, i, {x[1]});
  Value lengths = call.Plain(i);
  if (val.type != DType::kI32) lengths = call.graph().Make<ops::Cast>({lengths}, DType::kI32);
  return lengths;
}

// Rejects attributes that change what a step computes.
void RefuseRest(const NodeContext& call) {
  for (const auto* name : {"clip", "activation_alpha", "activation_beta"}) {
    if (call.node.attributes.contains(name)) Fail(std::string(name) + " is not supported");
  }
  if (IntAttribute(call.node, "input_forget", 0) != 0) Fail("input_forget is not supported");
  if (IntAttribute(call.node, "layout", 0) != 0) Fail("layout 1 is not supported");
  if (call.Has(7)) Fail("peepholes are not supported");
}

std::vector<std::string> ActivationsOf(const NodeContext& call, const std::vector<std::string>& usual,
                                       int64_t directions) {
  std::vector<std::string> all;
  for (int64_t d = 0; d < directions; ++d) all.insert(all.end(), usual.begin(), usual.end());
  const auto at = call.node.attributes.find("activations");
  if (at == call.node.attributes.end()) return all;
  const auto* given = std::get_if<std::vector<std::string>>(&at->second.value);
  if (given == nullptr || given->size() != all.size()) {
    Fail("activations must have " + std::to_string(all.size()) + " names");
  }
  return *given;
}

void CheckActivations(const NodeContext& call, const std::vector<std::string>& usual, int64_t directions) {
  const auto given = ActivationsOf(call, usual, directions);
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] != usual[i % usual.size()]) Fail("activation " + Quoted(given[i]) + " is not supported");
  }
}

Recurrent RecurrentOf(const NodeContext& call, int64_t gates) {
  RefuseRest(call);
  Recurrent r{.x = call.ShapeOf(0)};
  r.gates = gates;
  if (r.x.rank() != 3) Fail("takes [time, batch, inputs], not " + r.x.ToString());
  if (r.x.elements() == 0) Fail("of " + r.x.ToString());
  const auto direction = StringAttribute(call.node, "direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    Fail("direction " + Quoted(direction) + " is not supported");
  }
  r.directions = direction == "bidirectional" ? 2 : 1;
  r.reverse_first = direction == "reverse";
  const Shape& state = call.ShapeOf(2);
  if (state.rank() != 3 || state[2] < 1) Fail("R is " + state.ToString());
  r.units = state[2];
  const int64_t hidden = IntAttribute(call.node, "hidden_size", r.units);
  if (hidden != r.units) Fail("hidden_size is " + std::to_string(hidden) + ", R is " + state.ToString());
  if (r.units > INT32_MAX) Fail("has too many units: R is " + state.ToString());
  CheckShape(call, 1, {r.directions, gates * r.units, r.x[2]});
  CheckShape(call, 2, {r.directions, gates * r.units, r.units});
  if (call.Has(3)) CheckShape(call, 3, {r.directions, 2 * gates * r.units});
  r.batch_first = BatchFirst(call.graph(), call.F32(0));
  r.lengths = LengthsOf(call, 4, r.x);
  return r;
}

// The part of input i for direction d, without the first axis.
Value OfDirection(const NodeContext& call, size_t i, int64_t d) {
  Graph& graph = call.graph();
  const Value row = Rows(graph, call.F32(i), d, 1);
  return graph.Make<ops::Reshape>({row}, Shape(graph.shape(row).sizes().subspan(1)));
}

// Reorders parts of the first axis, each of size `units`.
Value Reordered(Graph& graph, Value x, int64_t units, const std::vector<int64_t>& order) {
  if (order.size() == 1) return Rows(graph, x, order[0] * units, units);
  std::vector<Value> parts;
  for (const int64_t part : order) parts.push_back(Rows(graph, x, part * units, units));
  return graph.Make<ops::Concat>(std::move(parts), 0);
}

std::optional<Value> StateOf(const NodeContext& call, size_t i, const Recurrent& r, int64_t d) {
  if (!call.Has(i) || AllZero(call.In(i))) return std::nullopt;
  CheckShape(call, i, {r.directions, r.x[1], r.units});
  return OfDirection(call, i, d);
}

// Weights, states and lengths of one direction. `order`: the file's index of each of Leat's gates.
ops::RecurrentInputs InputsOf(const NodeContext& call, const Recurrent& r, int64_t d,
                              const std::vector<int64_t>& order) {
  Graph& graph = call.graph();
  const auto turned = [&](size_t i) {
    return graph.Make<ops::Transpose>({Reordered(graph, OfDirection(call, i, d), r.units, order)});
  };
  ops::RecurrentInputs in{.x = r.batch_first, .input_weight = turned(1), .state_weight = turned(2)};
  in.lengths = r.lengths;
  in.hidden = StateOf(call, 5, r, d);
  return in;
}

// The two biases of each gate, each [gates · units] in Leat's gate order.
std::pair<Value, Value> BiasesOf(const NodeContext& call, const Recurrent& r, int64_t d,
                                 const std::vector<int64_t>& order) {
  Graph& graph = call.graph();
  const Value both = OfDirection(call, 3, d);
  const int64_t half = r.gates * r.units;
  return {Reordered(graph, Rows(graph, both, 0, half), r.units, order),
          Reordered(graph, Rows(graph, both, half, half), r.units, order)};
}

bool IsReverse(const Recurrent& r, int64_t d) {
  return d == 1 || r.reverse_first;
}

// Sets the outputs Y[time, directions, batch, units], Y_h and Y_c[directions, batch, units].
void PutRecurrent(const NodeContext& call, const Recurrent& r,
                  const std::vector<ops::RecurrentOutputs>& made) {
  Graph& graph = call.graph();
  const auto joined = [&](std::vector<Value> parts, int axis) {
    return parts.size() == 1 ? parts[0] : graph.Make<ops::Concat>(std::move(parts), axis);
  };
  std::vector<Value> sequences, hidden, cells;
  for (const auto& part : made) {
    if (call.Wants(0)) {
      const Value turned = graph.Make<ops::Transpose>({part.sequence}, std::vector<int>{1, 0, 2});
      sequences.push_back(graph.Make<ops::Reshape>({turned}, Shape{r.x[0], 1, r.x[1], r.units}));
    }
    const Shape state{1, r.x[1], r.units};
    if (call.Wants(1)) hidden.push_back(graph.Make<ops::Reshape>({part.hidden}, state));
    if (call.Wants(2) && part.cell) cells.push_back(graph.Make<ops::Reshape>({*part.cell}, state));
  }
  if (call.Wants(0)) call.Out(0, joined(std::move(sequences), 1));
  if (call.Wants(1)) call.Out(1, joined(std::move(hidden), 0));
  if (call.Wants(2) && !cells.empty()) call.Out(2, joined(std::move(cells), 0));
}

void BuildLstm(const NodeContext& call) {
  Graph& graph = call.graph();
  const Recurrent r = RecurrentOf(call, 4);
  CheckActivations(call, {"Sigmoid", "Tanh", "Tanh"}, r.directions);
  const std::vector<int64_t> order = {0, 2, 3, 1};  // positions in the file's i, o, f, c
  std::vector<ops::RecurrentOutputs> made;
  for (int64_t d = 0; d < r.directions; ++d) {
    auto in = InputsOf(call, r, d, order);
    in.cell = StateOf(call, 6, r, d);
    if (in.hidden.has_value() != in.cell.has_value()) {
      const Value zero = graph.Make<graph::Constant>({}, Shape{r.x[1], r.units}, 0.0f);
      (in.hidden ? in.cell : in.hidden) = zero;
    }
    if (call.Has(3)) {
      const auto [first, second] = BiasesOf(call, r, d, order);
      in.bias = graph.Make<ops::Add>({first, second});
    }
    made.push_back(ops::AddLstm(graph, in, IsReverse(r, d)));
  }
  PutRecurrent(call, r, made);
}

void BuildGru(const NodeContext& call) {
  Graph& graph = call.graph();
  const Recurrent r = RecurrentOf(call, 3);
  CheckActivations(call, {"Sigmoid", "Tanh"}, r.directions);
  const bool before = IntAttribute(call.node, "linear_before_reset", 0) != 0;
  const std::vector<int64_t> order = {1, 0, 2};  // positions in the file's z, r, h
  std::vector<ops::RecurrentOutputs> made;
  for (int64_t d = 0; d < r.directions; ++d) {
    auto in = InputsOf(call, r, d, order);
    std::optional<Value> new_bias;
    if (before) new_bias = graph.Make<graph::Constant>({}, Shape{r.units}, 0.0f);
    if (call.Has(3)) {
      const auto [first, second] = BiasesOf(call, r, d, order);
      if (before) {
        const Value gates =
            graph.Make<ops::Add>({Rows(graph, first, 0, 2 * r.units), Rows(graph, second, 0, 2 * r.units)});
        in.bias = graph.Make<ops::Concat>({gates, Rows(graph, first, 2 * r.units, r.units)}, 0);
        new_bias = Rows(graph, second, 2 * r.units, r.units);
      } else {
        in.bias = graph.Make<ops::Add>({first, second});
      }
    }
    made.push_back(ops::AddGru(graph, in, new_bias, IsReverse(r, d)));
  }
  PutRecurrent(call, r, made);
}

void BuildRnn(const NodeContext& call) {
  const Recurrent r = RecurrentOf(call, 1);
  const auto activations = ActivationsOf(call, {"Tanh"}, r.directions);
  std::vector<ops::RecurrentOutputs> made;
  for (int64_t d = 0; d < r.directions; ++d) {
    const auto& activation = activations[static_cast<size_t>(d)];
    if (activation != "Tanh" && activation != "Relu")
      Fail("activation " + Quoted(activation) + " is not supported");
    auto in = InputsOf(call, r, d, {0});
    if (call.Has(3)) {
      const auto [first, second] = BiasesOf(call, r, d, {0});
      in.bias = call.graph().Make<ops::Add>({first, second});
    }
    made.push_back(ops::AddRnn(call.graph(), in, activation == "Relu", IsReverse(r, d)));
  }
  PutRecurrent(call, r, made);
}

constexpr OpRow kSequenceOps[] = {
    {"GRU", BuildGru},
    {"LSTM", BuildLstm},
    {"RNN", BuildRnn},
};

}  // namespace

std::span<const OpRow> SequenceOps() {
  return kSequenceOps;
}

}  // namespace leat::onnx
