// Writers of recurrent layers and attention.
#include <algorithm>
#include <cmath>

#include "compute/onnx/write/writer.h"
#include "compute/ops/ops.h"

namespace leat::onnx {
namespace {

// Writes weights of a recurrent op transposed, as [gates · units, inputs], in ONNX gate order.
std::string TransposedName(Writer& w, Value v, const Ints& order, const std::string& suffix) {
  const Shape& shape = w.shape(v);
  const int64_t rows = shape[0], units = shape[1] / static_cast<int64_t>(order.size());
  const auto from = w.VariableValues(v);
  std::vector<float> to;
  to.reserve(from.size());
  for (const int64_t gate : order) {
    for (int64_t u = 0; u < units; ++u) {
      for (int64_t r = 0; r < rows; ++r)
        to.push_back(from[static_cast<size_t>(r * shape[1] + gate * units + u)]);
    }
  }
  return w.Floats(Shape{1, shape[1], rows}, to, w.graph().node(v).name + suffix);
}

void Append(std::vector<float>* to, std::span<const float> from, int64_t units, const Ints& order) {
  for (const int64_t gate : order) {
    const auto part = from.subspan(static_cast<size_t>(gate * units), static_cast<size_t>(units));
    to->insert(to->end(), part.begin(), part.end());
  }
}

Value BehindViews(const Writer& w, Value v) {
  while (w.graph().node(v).op->is_view()) v = w.graph().node(v).inputs[0];
  return v;
}

// ONNX has one node for the whole layer, which includes the product with the inputs before Leat's op.
void WriteRecurrent(Writer& w, const Node& node) {
  const std::string_view kind = node.op->kind();
  const auto& op = As<ops::RecurrentOp>(node);
  const Ints order = kind == "lstm" ? Ints{0, 3, 1, 2} : kind == "gru" ? Ints{1, 0, 2} : Ints{0};
  const auto gates = static_cast<int64_t>(order.size());
  const int64_t units = w.shape(node.inputs[1])[0];
  const bool before = kind == "gru" && As<ops::Gru>(node).linear_before_reset;

  const Node* product = &w.graph().node(BehindViews(w, node.inputs[0]));
  std::optional<Value> bias;
  if (product->op->kind() == "bias_add") {
    bias = product->inputs[1];
    product = &w.graph().node(BehindViews(w, product->inputs[0]));
  }
  const Value by_time = product->inputs.empty() ? Value{} : BehindViews(w, product->inputs[0]);
  if (product->op->kind() != "matmul" || w.shape(by_time).rank() != 3)
    w.Fail("its input is not a matmul that can be written");

  std::vector<std::string> inputs = {w.Plain(by_time), TransposedName(w, product->inputs[1], order, ""),
                                     TransposedName(w, node.inputs[1], order, "")};
  std::vector<float> biases;
  const std::vector<float> zeros(static_cast<size_t>(gates * units));
  Append(&biases, bias ? w.VariableValues(*bias) : std::span<const float>(zeros), units, order);
  std::vector<float> second = zeros;
  if (before) std::ranges::copy(w.VariableValues(node.inputs[2]), second.begin() + 2 * units);
  Append(&biases, second, units, order);
  inputs.push_back(w.Floats(Shape{1, 2 * gates * units}, biases, node.name + "/bias"));
  size_t next = before ? 3 : 2;
  inputs.push_back(op.options.lengths ? w.Plain(node.inputs[next++]) : "");
  for (size_t i = next; op.options.initial && i < node.inputs.size(); ++i) {
    inputs.push_back(w.Node("Unsqueeze", {w.Plain(node.inputs[i]), w.Ints({0}, node.name + "/axis")},
                            node.name + "/initial"));
  }
  const std::string y = w.Node(kind == "lstm"  ? "LSTM"
                               : kind == "gru" ? "GRU"
                                               : "RNN",
                               inputs, node.name + "/Y");
  const std::string hidden = w.Output(node.name + "/Y_h");
  const std::string cell = kind == "lstm" ? w.Output(node.name + "/Y_c") : "";
  w.Attribute("hidden_size", units);
  w.Attribute("direction", std::string(op.options.reverse ? "reverse" : "forward"));
  if (before) w.Attribute("linear_before_reset", int64_t{1});
  if (kind == "rnn") {
    w.Attribute("activations", std::vector<std::string>{As<ops::Rnn>(node).relu ? "Relu" : "Tanh"});
  }
  if (w.Uses(Out(node)) > 0) {
    const auto squeezed = w.Node("Squeeze", {y, w.Ints({1}, node.name + "/axis")}, node.name + "/steps");
    w.Put(Out(node), false, w.Node("Transpose", {squeezed}, node.name));
    w.Attribute("perm", Ints{1, 0, 2});
  }
  const auto state = [&](uint32_t output, const std::string& name) {
    if (w.Uses(Out(node, output)) == 0) return;
    w.Put(Out(node, output), false,
          w.Node("Squeeze", {name, w.Ints({0}, node.name + "/axis")}, node.name + "/state"));
  };
  state(1, hidden);
  if (kind == "lstm") state(2, cell);
}

// The length of a row without trailing padding: the position of the last id that is not padding, plus 1.
void WriteLengths(Writer& w, const Node& node) {
  const Value ids = node.inputs[0];
  const int64_t time = w.shape(ids)[1];
  const int32_t padding = As<ops::SequenceLengths>(node).padding;
  const auto equal = w.Node(
      "Equal",
      {w.Plain(ids), w.Known(Tensor::Of<int32_t>(Shape{}, std::span(&padding, 1)), node.name + "/padding")},
      node.name + "/padded");
  const auto other = w.Node("Not", {equal}, node.name + "/counted");
  const auto numbers = w.Node("Cast", {other}, node.name + "/ones");
  w.Attribute("to", int64_t{proto::TensorProto::FLOAT});
  std::vector<float> places;
  for (int64_t t = 1; t <= time; ++t) places.push_back(static_cast<float>(t));
  const auto at =
      w.Node("Mul", {numbers, w.Floats(Shape{time}, places, node.name + "/places")}, node.name + "/at");
  const auto most = w.Node("ReduceMax", {at}, node.name + "/most");
  w.Attribute("axes", Ints{1});
  w.Attribute("keepdims", int64_t{0});
  w.Put(Out(node), false, w.Node("Cast", {most}, node.name));
  w.Attribute("to", int64_t{proto::TensorProto::INT32});
}

// Writes attention as primitive ops: split heads, scores, mask, softmax, merge heads.
void WriteAttention(Writer& w, const Node& node) {
  if (w.Uses(Out(node, 1)) > 0) w.Fail("its log-sum output cannot be written");
  std::vector<TensorType> types;
  for (const auto& input : node.inputs) types.push_back(w.graph().type(input));
  const auto a = ops::AttentionShapeOf(As<ops::Attention>(node).settings, types);
  if (a.lengths) w.Fail("attention with lengths cannot be written");
  const std::string& name = node.name;
  std::vector<std::string> parts;
  if (a.packed) {
    const int64_t each = a.heads * a.size;
    parts.push_back(
        w.Node("Split", {w.Plain(node.inputs[0]), w.Ints({each, each, each}, name + "/parts")}, name + "/q"));
    parts.push_back(w.Output(name + "/k"));
    parts.push_back(w.Output(name + "/v"));
    w.Attribute("axis", int64_t{2});
  } else {
    for (size_t i = 0; i < 3; ++i) parts.push_back(w.Plain(node.inputs[i]));
  }
  const auto heads = [&](const std::string& x, int64_t time, const Ints& order, const std::string& hint) {
    const auto apart =
        w.Node("Reshape", {x, w.Ints({0, time, a.heads, a.size}, hint + "/shape")}, hint + "/apart");
    const auto made = w.Node("Transpose", {apart}, hint + "/heads");
    w.Attribute("perm", order);
    return made;
  };
  const auto q = heads(parts[0], a.queries, {0, 2, 1, 3}, name + "/q");
  const auto k = heads(parts[1], a.keys, {0, 2, 3, 1}, name + "/k");
  const auto v = heads(parts[2], a.keys, {0, 2, 1, 3}, name + "/v");
  const auto factor = static_cast<float>(1 / std::sqrt(static_cast<double>(a.size)));
  auto scores = w.Node("MatMul", {q, k}, name + "/products");
  scores = w.Node("Mul", {scores, w.Scalar(factor, name + "/factor")}, name + "/scores");
  if (a.settings.causal) {
    std::vector<uint8_t> seen;
    for (int64_t i = 0; i < a.queries; ++i) {
      for (int64_t j = 0; j < a.keys; ++j) seen.push_back(j < a.Visible(i, a.keys) ? 1 : 0);
    }
    const auto mask =
        w.Node("Cast", {w.Known(Tensor::Of<uint8_t>(Shape{a.queries, a.keys}, seen), name + "/seen")},
               name + "/mask");
    w.Attribute("to", int64_t{proto::TensorProto::BOOL});
    // Far below any score, but finite, so that a query without visible keys does not give NaN.
    scores = w.Node("Where", {mask, scores, w.Scalar(-1e30f, name + "/unseen")}, name + "/masked");
  }
  const auto shares = w.Node("Softmax", {scores}, name + "/shares");
  w.Attribute("axis", int64_t{-1});
  const auto mixed = w.Node("MatMul", {shares, v}, name + "/mixed");
  const auto turned = w.Node("Transpose", {mixed}, name + "/turned");
  w.Attribute("perm", Ints{0, 2, 1, 3});
  w.Put(Out(node), false,
        w.Node("Reshape", {turned, w.Ints({0, a.queries, a.heads * a.size}, name + "/shape")}, name));
}

}  // namespace

bool LeftToRecurrent(const Writer& w, const Node& node) {
  Value v = Out(node);
  for (;;) {
    if (w.Uses(v) != 1) return false;
    const Node* reader = nullptr;
    for (const auto& other : w.graph().nodes()) {
      if (std::ranges::find(other.inputs, v) != other.inputs.end()) reader = &other;
    }
    if (reader == nullptr) return false;
    const std::string_view kind = reader->op->kind();
    if (kind == "lstm" || kind == "gru" || kind == "rnn") return reader->inputs[0] == v;
    if (!reader->op->is_view() && kind != "bias_add") return false;
    v = Out(*reader);
  }
}

void AddSequenceWriters(WriterTable& table) {
  table.Add("attention", WriteAttention);
  table.Add("gru", WriteRecurrent);
  table.Add("lstm", WriteRecurrent);
  table.Add("rnn", WriteRecurrent);
  table.Add("sequence_lengths", WriteLengths);
}

}  // namespace leat::onnx
