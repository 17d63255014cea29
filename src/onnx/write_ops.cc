// How each op is written.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "onnx/file.h"
#include "onnx/write.h"
#include "ops/ops.h"

namespace leat::onnx {
namespace {

using graph::Node;
using graph::Value;
using Ints = std::vector<int64_t>;

Value Out(const Node& node, uint32_t output = 0) {
  return {node.index, output};
}

template <class O>
const O& As(const Node& node) {
  return static_cast<const O&>(*node.op);
}

// Of one element at a time: in whichever order of axes the input lies. `f` makes the name of the output from
// that of the input.
template <class F>
void Elementwise(Writer& w, const Node& node, F f) {
  const bool first = w.IsFirst(node.inputs[0]);
  w.Put(Out(node), first, f(w.As(node.inputs[0], first)));
}

void WriteUnary(Writer& w, const Node& node) {
  static const std::unordered_map<std::string_view, std::string_view> kNames = {
      {"abs", "Abs"},   {"ceil", "Ceil"},   {"cos", "Cos"},
      {"erf", "Erf"},   {"exp", "Exp"},     {"floor", "Floor"},
      {"log", "Log"},   {"neg", "Neg"},     {"reciprocal", "Reciprocal"},
      {"relu", "Relu"}, {"round", "Round"}, {"sigmoid", "Sigmoid"},
      {"sign", "Sign"}, {"sin", "Sin"},     {"softplus", "Softplus"},
      {"sqrt", "Sqrt"}, {"tanh", "Tanh"}};
  Elementwise(w, node,
              [&](const std::string& x) { return w.Node(kNames.at(node.op->kind()), {x}, node.name); });
}

void WriteScale(Writer& w, const Node& node) {
  const auto& scale = As<ops::Scale>(node);
  Elementwise(w, node, [&](std::string x) {
    if (scale.factor != 1) x = w.Node("Mul", {x, w.Scalar(scale.factor, node.name + "/factor")}, node.name);
    if (scale.offset != 0) x = w.Node("Add", {x, w.Scalar(scale.offset, node.name + "/offset")}, node.name);
    return scale.factor == 1 && scale.offset == 0 ? w.Node("Identity", {x}, node.name) : x;
  });
}

void WriteClip(Writer& w, const Node& node) {
  const auto& clip = As<ops::Clip>(node);
  Elementwise(w, node, [&](const std::string& x) {
    return w.Node("Clip",
                  {x, w.Scalar(clip.low, node.name + "/low"), w.Scalar(clip.high, node.name + "/high")},
                  node.name);
  });
}

void WriteLeakyRelu(Writer& w, const Node& node) {
  Elementwise(w, node, [&](const std::string& x) { return w.Node("LeakyRelu", {x}, node.name); });
  w.Attribute("alpha", As<ops::LeakyRelu>(node).slope);
}

void WriteElu(Writer& w, const Node& node) {
  Elementwise(w, node, [&](const std::string& x) { return w.Node("Elu", {x}, node.name); });
  w.Attribute("alpha", As<ops::Elu>(node).alpha);
}

void WriteGelu(Writer& w, const Node& node) {
  if (As<ops::Gelu>(node).approximate) w.Fail("the approximation by tanh cannot be written");
  Elementwise(w, node, [&](const std::string& x) {
    const auto scaled =
        w.Node("Mul", {x, w.Scalar(0.70710678118654752f, node.name + "/rsqrt2")}, node.name + "/scaled");
    const auto erf = w.Node("Erf", {scaled}, node.name + "/erf");
    const auto sum = w.Node("Add", {erf, w.Scalar(1, node.name + "/one")}, node.name + "/sum");
    const auto product = w.Node("Mul", {x, sum}, node.name + "/product");
    return w.Node("Mul", {product, w.Scalar(0.5f, node.name + "/half")}, node.name);
  });
}

void WriteSilu(Writer& w, const Node& node) {
  Elementwise(w, node, [&](const std::string& x) {
    return w.Node("Mul", {x, w.Node("Sigmoid", {x}, node.name + "/sigmoid")}, node.name);
  });
}

void WriteSquare(Writer& w, const Node& node) {
  Elementwise(w, node, [&](const std::string& x) { return w.Node("Mul", {x, x}, node.name); });
}

void WritePower(Writer& w, const Node& node) {
  Elementwise(w, node, [&](const std::string& x) {
    return w.Node("Pow", {x, w.Scalar(As<ops::Power>(node).exponent, node.name + "/exponent")}, node.name);
  });
}

void WriteRsqrt(Writer& w, const Node& node) {
  Elementwise(w, node, [&](const std::string& x) {
    return w.Node("Reciprocal", {w.Node("Sqrt", {x}, node.name + "/sqrt")}, node.name);
  });
}

void WriteCast(Writer& w, const Node& node) {
  w.Put(Out(node), false, w.Node("Cast", {w.Plain(node.inputs[0])}, node.name));
  w.Attribute("to", int64_t{TypeNumber(As<ops::Cast>(node).to)});
}

// Broadcasting.

// `v` beside a tensor that lies channels first; empty when it does not go.
std::optional<std::string> Beside(Writer& w, Value v) {
  const Shape& shape = w.shape(v);
  if (shape.rank() == 4) return w.First(v);
  if (shape.elements() == 1 && shape.rank() < 2) return w.Plain(v);
  if (shape.rank() != 1) return std::nullopt;
  const std::string name = w.graph().node(v).name + "/channels";
  return w.Node("Unsqueeze", {w.Plain(v), w.Ints({1, 2}, name + "/axes")}, name);
}

void WriteBinary(Writer& w, const Node& node) {
  static const std::unordered_map<std::string_view, std::string_view> kNames = {
      {"add", "Add"}, {"div", "Div"}, {"maximum", "Max"}, {"minimum", "Min"},
      {"mul", "Mul"}, {"pow", "Pow"}, {"sub", "Sub"}};
  const std::string_view op = kNames.at(node.op->kind());
  const Value a = node.inputs[0], b = node.inputs[1];
  if ((w.IsFirst(a) || w.IsFirst(b)) && w.shape(a).rank() <= 4 && w.shape(b).rank() <= 4) {
    const auto left = Beside(w, a), right = Beside(w, b);
    if (left && right) return w.Put(Out(node), true, w.Node(op, {*left, *right}, node.name));
  }
  w.Put(Out(node), false, w.Node(op, {w.Plain(a), w.Plain(b)}, node.name));
}

void WriteCompare(Writer& w, const Node& node) {
  static const std::unordered_map<std::string_view, std::string_view> kNames = {
      {"equal", "Equal"},
      {"greater", "Greater"},
      {"greater_equal", "GreaterOrEqual"},
      {"less", "Less"},
      {"less_equal", "LessOrEqual"}};
  const std::string holds = w.Node(kNames.at(node.op->kind()),
                                   {w.Plain(node.inputs[0]), w.Plain(node.inputs[1])}, node.name + "/holds");
  w.Put(Out(node), false, w.Node("Cast", {holds}, node.name));
  w.Attribute("to", int64_t{proto::TensorProto::UINT8});
}

std::string AsBool(Writer& w, Value v) {
  const std::string name = w.Node("Cast", {w.Plain(v)}, w.graph().node(v).name + "/bool");
  w.Attribute("to", int64_t{proto::TensorProto::BOOL});
  return name;
}

void WriteWhere(Writer& w, const Node& node) {
  w.Put(Out(node), false,
        w.Node("Where", {AsBool(w, node.inputs[0]), w.Plain(node.inputs[1]), w.Plain(node.inputs[2])},
               node.name));
}

void WriteSoftmax(Writer& w, const Node& node) {
  const std::string_view op = node.op->kind() == "softmax" ? "Softmax" : "LogSoftmax";
  const bool first = w.IsFirst(node.inputs[0]);
  w.Put(Out(node), first, w.Node(op, {w.As(node.inputs[0], first)}, node.name));
  w.Attribute("axis", int64_t{first ? 1 : -1});
}

// Products and convolutions.

// Whether a node's output goes into a bias alone, which then writes both.
bool LeftToBias(Writer& w, const Node& node) {
  if (w.Uses(Out(node)) != 1) return false;
  for (const auto& other : w.graph().nodes()) {
    if (other.op->kind() == "bias_add" && other.inputs[0] == Out(node)) return true;
  }
  return false;
}

std::string MatMulAs(Writer& w, const Node& node, const std::string& bias, const std::string& name) {
  const auto& op = As<ops::MatMul>(node);
  std::vector<std::string> inputs = {w.Plain(node.inputs[0]), w.Plain(node.inputs[1])};
  if (!bias.empty()) inputs.push_back(bias);
  const bool plain = bias.empty() && !op.transpose_a && !op.transpose_b;
  const std::string made = w.Node(plain ? "MatMul" : "Gemm", inputs, name);
  if (op.transpose_a) w.Attribute("transA", int64_t{1});
  if (op.transpose_b) w.Attribute("transB", int64_t{1});
  return made;
}

void WriteMatMul(Writer& w, const Node& node) {
  if (!LeftToBias(w, node)) w.Put(Out(node), false, MatMulAs(w, node, "", node.name));
}

void WriteBatchMatMul(Writer& w, const Node& node) {
  const auto& op = As<ops::BatchMatMul>(node);
  const auto side = [&](Value v, bool transposed) {
    if (!transposed) return w.Plain(v);
    Ints order(w.shape(v).rank());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    const auto name = w.Node("Transpose", {w.Plain(v)}, w.graph().node(v).name + "/transposed");
    w.Attribute("perm", order);
    return name;
  };
  const auto a = side(node.inputs[0], op.transpose_a), b = side(node.inputs[1], op.transpose_b);
  w.Put(Out(node), false, w.Node("MatMul", {a, b}, node.name));
}

void ConvAttributes(Writer& w, const ops::Conv2dAttributes& a, const Shape& filters) {
  w.Attribute("kernel_shape", Ints{filters[2], filters[3]});
  w.Attribute("strides", Ints{a.strides.height, a.strides.width});
  w.Attribute("dilations", Ints{a.dilations.height, a.dilations.width});
  w.Attribute("pads", Ints{a.padding.top, a.padding.left, a.padding.bottom, a.padding.right});
  w.Attribute("group", a.groups);
}

std::string ConvAs(Writer& w, const Node& node, const std::string& bias, const std::string& name) {
  std::vector<std::string> inputs = {w.First(node.inputs[0]), w.Plain(node.inputs[1])};
  if (!bias.empty()) inputs.push_back(bias);
  const Shape& filters = w.shape(node.inputs[1]);
  if (node.op->kind() == "conv2d") {
    const std::string made = w.Node("Conv", inputs, name);
    ConvAttributes(w, As<ops::Conv2d>(node).attr, filters);
    return made;
  }
  const auto& op = As<ops::Conv2dGradInput>(node);
  const std::string made = w.Node("ConvTranspose", inputs, name);
  ConvAttributes(w, op.attr, filters);
  const Shape& y = w.shape(node.inputs[0]);
  const auto missing = [](int64_t out, int64_t in, int64_t stride, int64_t kernel, int64_t dilation,
                          int64_t padding) {
    return out - ((in - 1) * stride + (kernel - 1) * dilation + 1 - padding);
  };
  const auto& a = op.attr;
  w.Attribute("output_padding", Ints{missing(op.input.height, y[1], a.strides.height, filters[2],
                                             a.dilations.height, a.padding.top + a.padding.bottom),
                                     missing(op.input.width, y[2], a.strides.width, filters[3],
                                             a.dilations.width, a.padding.left + a.padding.right)});
  return made;
}

void WriteConv(Writer& w, const Node& node) {
  if (!LeftToBias(w, node)) w.Put(Out(node), true, ConvAs(w, node, "", node.name));
}

void WriteBiasAdd(Writer& w, const Node& node) {
  const Node& before = w.graph().node(node.inputs[0]);
  const std::string_view kind = before.op->kind();
  const bool alone = w.Uses(node.inputs[0]) == 1;
  if (alone && kind == "matmul") {
    return w.Put(Out(node), false, MatMulAs(w, before, w.Plain(node.inputs[1]), node.name));
  }
  if (alone && (kind == "conv2d" || kind == "conv2d_grad_input")) {
    return w.Put(Out(node), true, ConvAs(w, before, w.Plain(node.inputs[1]), node.name));
  }
  if (w.IsFirst(node.inputs[0])) {
    return w.Put(Out(node), true,
                 w.Node("Add", {w.First(node.inputs[0]), *Beside(w, node.inputs[1])}, node.name));
  }
  w.Put(Out(node), false, w.Node("Add", {w.Plain(node.inputs[0]), w.Plain(node.inputs[1])}, node.name));
}

void WritePool(Writer& w, const Node& node) {
  const bool max = node.op->kind() == "max_pool";
  if (max && w.Uses(Out(node, 1)) > 0) w.Fail("its indices cannot be written");
  const auto& a = max ? As<ops::MaxPool>(node).attr : As<ops::AvgPool>(node).attr;
  w.Put(Out(node), true, w.Node(max ? "MaxPool" : "AveragePool", {w.First(node.inputs[0])}, node.name));
  w.Attribute("kernel_shape", Ints{a.kernel.height, a.kernel.width});
  w.Attribute("strides", Ints{a.strides.height, a.strides.width});
  w.Attribute("pads", Ints{a.padding.top, a.padding.left, a.padding.bottom, a.padding.right});
  if (!max) w.Attribute("count_include_pad", int64_t{As<ops::AvgPool>(node).count_include_pad});
}

void WriteLayerNorm(Writer& w, const Node& node) {
  if (w.Uses(Out(node, 1)) + w.Uses(Out(node, 2)) > 0) w.Fail("its mean and deviation cannot be written");
  w.Put(Out(node), false,
        w.Node("LayerNormalization",
               {w.Plain(node.inputs[0]), w.Plain(node.inputs[1]), w.Plain(node.inputs[2])}, node.name));
  w.Attribute("axis", int64_t{-1});
  w.Attribute("epsilon", As<ops::LayerNorm>(node).epsilon);
}

// Shapes.

void WriteReshape(Writer& w, const Node& node) {
  w.Put(Out(node), false,
        w.Node("Reshape", {w.Plain(node.inputs[0]), w.Ints(w.Sizes(Out(node)), node.name + "/shape")},
               node.name));
}

void WriteTranspose(Writer& w, const Node& node) {
  const auto& order = As<ops::Transpose>(node).permutation;
  const Value x = node.inputs[0];
  if (order == std::vector<int>{0, 3, 1, 2}) return w.Put(Out(node), false, w.First(x));
  if (order == std::vector<int>{0, 2, 3, 1} && !w.IsFirst(x)) return w.Put(Out(node), true, w.Plain(x));
  w.Put(Out(node), false, w.Node("Transpose", {w.Plain(x)}, node.name));
  w.Attribute("perm", Ints(order.begin(), order.end()));
}

constexpr int64_t kPlaceFirst[] = {0, 2, 3,
                                   1};  // of batch, height, width, channels where channels come first

void WriteConcat(Writer& w, const Node& node) {
  const auto rank = static_cast<int>(w.shape(node.inputs[0]).rank());
  int axis = As<ops::Concat>(node).axis;
  if (axis < 0) axis += rank;
  bool first = rank == 4;
  for (const auto& input : node.inputs) first = first && w.IsFirst(input);
  std::vector<std::string> inputs;
  for (const auto& input : node.inputs) inputs.push_back(w.As(input, first));
  w.Put(Out(node), first, w.Node("Concat", inputs, node.name));
  w.Attribute("axis", first ? kPlaceFirst[axis] : int64_t{axis});
}

void WriteSlice(Writer& w, const Node& node) {
  const auto& slice = As<ops::Slice>(node);
  const Shape& from = w.shape(node.inputs[0]);
  Ints starts, ends, axes, steps;
  for (size_t i = 0; i < from.rank(); ++i) {
    const int64_t step = slice.step.empty() ? 1 : slice.step[i];
    if (step == 1 && slice.begin[i] == 0 && slice.size[i] == from[i]) continue;
    if (w.Varies(node.inputs[0], i)) w.Fail("cuts the batch, which therefore cannot be symbolic");
    const int64_t end = slice.begin[i] + slice.size[i] * step;
    starts.push_back(slice.begin[i]);
    ends.push_back(end < 0 ? std::numeric_limits<int64_t>::min() + 1 : end);
    axes.push_back(static_cast<int64_t>(i));
    steps.push_back(step);
  }
  w.Put(Out(node), false,
        w.Node("Slice",
               {w.Plain(node.inputs[0]), w.Ints(starts, node.name + "/starts"),
                w.Ints(ends, node.name + "/ends"), w.Ints(axes, node.name + "/axes"),
                w.Ints(steps, node.name + "/steps")},
               node.name));
}

void WriteSplit(Writer& w, const Node& node) {
  const auto& split = As<ops::Split>(node);
  const std::string first =
      w.Node("Split", {w.Plain(node.inputs[0]), w.Ints(split.sizes, node.name + "/sizes")}, node.name);
  w.Put(Out(node), false, first);
  for (uint32_t i = 1; i < node.outputs.size(); ++i) w.Put(Out(node, i), false, w.Output(node.name));
  w.Attribute("axis", int64_t{split.axis});
}

void WriteBroadcastTo(Writer& w, const Node& node) {
  Ints sizes = w.Sizes(Out(node));
  // 1 keeps what there is.
  const size_t before = sizes.size() - w.shape(node.inputs[0]).rank();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != -1) continue;
    if (i < before || !w.Varies(node.inputs[0], i - before)) {
      w.Fail("stretches to the batch, which therefore cannot be symbolic");
    }
    sizes[i] = 1;
  }
  w.Put(Out(node), false,
        w.Node("Expand", {w.Plain(node.inputs[0]), w.Ints(sizes, node.name + "/shape")}, node.name));
}

void WriteReduce(Writer& w, const Node& node) {
  static const std::unordered_map<std::string_view, std::string_view> kNames = {
      {"log_sum_exp", "ReduceLogSumExp"}, {"reduce_l2", "ReduceL2"},   {"reduce_max", "ReduceMax"},
      {"reduce_mean", "ReduceMean"},      {"reduce_min", "ReduceMin"}, {"reduce_sum", "ReduceSum"}};
  const auto& op = As<ops::ReduceOp>(node);
  const auto reduced = op.Reduced(w.shape(node.inputs[0]).rank());
  Ints axes;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (reduced[i]) axes.push_back(static_cast<int64_t>(i));
  }
  bool first = w.IsFirst(node.inputs[0]);
  // Without the axes that go, the order of the others must be the same in both.
  if (first && !op.keep_dims) first = axes == Ints{1, 2};
  if (first) {
    for (auto& axis : axes) axis = kPlaceFirst[axis];
    std::ranges::sort(axes);
  }
  std::vector<std::string> inputs = {w.As(node.inputs[0], first)};
  const bool as_input = node.op->kind() == "reduce_sum";  // since opset 13, the others since 18
  if (as_input) inputs.push_back(w.Ints(axes, node.name + "/axes"));
  w.Put(Out(node), first && op.keep_dims, w.Node(kNames.at(node.op->kind()), inputs, node.name));
  if (!as_input) w.Attribute("axes", axes);
  w.Attribute("keepdims", int64_t{op.keep_dims});
}

void WritePad(Writer& w, const Node& node) {
  const auto& pad = As<ops::Pad>(node);
  Ints pads(pad.before);
  pads.insert(pads.end(), pad.after.begin(), pad.after.end());
  std::vector<std::string> inputs = {w.Plain(node.inputs[0]), w.Ints(pads, node.name + "/pads")};
  if (pad.mode == ops::PadMode::kConstant) inputs.push_back(w.Scalar(pad.value, node.name + "/value"));
  w.Put(Out(node), false, w.Node("Pad", inputs, node.name));
  w.Attribute("mode", std::string(ops::Name(pad.mode)));
}

void WriteEmbedding(Writer& w, const Node& node) {
  w.Put(Out(node), false, w.Node("Gather", {w.Plain(node.inputs[0]), w.Plain(node.inputs[1])}, node.name));
  w.Attribute("axis", int64_t{0});
}

void WriteGather(Writer& w, const Node& node) {
  w.Put(Out(node), false, w.Node("Gather", {w.Plain(node.inputs[0]), w.Plain(node.inputs[1])}, node.name));
  w.Attribute("axis", int64_t{As<ops::Gather>(node).axis});
}

// Sequences.

// Weights of a recurrent op as ONNX has them: gates down, inputs across, in its own order of gates.
std::string Turned(Writer& w, Value v, const Ints& order, const std::string& suffix) {
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

// The whole of a layer is one node in ONNX, with the product by the inputs that stands before the op here.
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
    w.Fail("stands behind no product that can be written");

  std::vector<std::string> inputs = {w.Plain(by_time), Turned(w, product->inputs[1], order, ""),
                                     Turned(w, node.inputs[1], order, "")};
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

// The product and the bias before a recurrent op are written with it, when nobody else reads them.
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

// How many ids of a row there are before the padding that ends it: the last place of one that is none.
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

// Heads apart, scores, a mask, and heads together again.
void WriteAttention(Writer& w, const Node& node) {
  if (w.Uses(Out(node, 1)) > 0) w.Fail("its logarithms cannot be written");
  std::vector<TensorType> types;
  for (const auto& input : node.inputs) types.push_back(w.graph().type(input));
  const auto a = ops::AttentionShapeOf(As<ops::Attention>(node).settings, types);
  if (a.lengths) w.Fail("with lengths cannot be written");
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
    // Far below any score, and finite, so that a query that sees nothing makes no NaN.
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

template <WriteOp write>
void UnlessRecurrent(Writer& w, const Node& node) {
  if (!LeftToRecurrent(w, node)) write(w, node);
}

}  // namespace

WriteOp FindWriter(std::string_view kind) {
  static const auto* kWriters = new std::unordered_map<std::string_view, WriteOp>{
      {"abs", WriteUnary},
      {"add", WriteBinary},
      {"attention", WriteAttention},
      {"avg_pool", WritePool},
      {"batch_matmul", WriteBatchMatMul},
      {"bias_add", UnlessRecurrent<WriteBiasAdd>},
      {"broadcast_to", WriteBroadcastTo},
      {"cast", WriteCast},
      {"ceil", WriteUnary},
      {"clip", WriteClip},
      {"concat", WriteConcat},
      {"conv2d", WriteConv},
      {"conv2d_grad_input", WriteConv},
      {"cos", WriteUnary},
      {"div", WriteBinary},
      {"elu", WriteElu},
      {"embedding", WriteEmbedding},
      {"equal", WriteCompare},
      {"erf", WriteUnary},
      {"exp", WriteUnary},
      {"floor", WriteUnary},
      {"gather", WriteGather},
      {"gelu", WriteGelu},
      {"greater", WriteCompare},
      {"greater_equal", WriteCompare},
      {"gru", WriteRecurrent},
      {"layer_norm", WriteLayerNorm},
      {"leaky_relu", WriteLeakyRelu},
      {"less", WriteCompare},
      {"less_equal", WriteCompare},
      {"log", WriteUnary},
      {"log_softmax", WriteSoftmax},
      {"log_sum_exp", WriteReduce},
      {"lstm", WriteRecurrent},
      {"matmul", UnlessRecurrent<WriteMatMul>},
      {"max_pool", WritePool},
      {"maximum", WriteBinary},
      {"minimum", WriteBinary},
      {"mul", WriteBinary},
      {"neg", WriteUnary},
      {"pad", WritePad},
      {"pow", WriteBinary},
      {"power", WritePower},
      {"reciprocal", WriteUnary},
      {"reduce_l2", WriteReduce},
      {"reduce_max", WriteReduce},
      {"reduce_mean", WriteReduce},
      {"reduce_min", WriteReduce},
      {"reduce_sum", WriteReduce},
      {"relu", WriteUnary},
      {"reshape", UnlessRecurrent<WriteReshape>},
      {"rnn", WriteRecurrent},
      {"round", WriteUnary},
      {"rsqrt", WriteRsqrt},
      {"scale", WriteScale},
      {"sequence_lengths", WriteLengths},
      {"sigmoid", WriteUnary},
      {"sign", WriteUnary},
      {"silu", WriteSilu},
      {"sin", WriteUnary},
      {"slice", WriteSlice},
      {"softmax", WriteSoftmax},
      {"softplus", WriteUnary},
      {"split", WriteSplit},
      {"sqrt", WriteUnary},
      {"square", WriteSquare},
      {"sub", WriteBinary},
      {"tanh", WriteUnary},
      {"transpose", WriteTranspose},
      {"where", WriteWhere},
  };
  const auto at = kWriters->find(kind);
  return at == kWriters->end() ? nullptr : at->second;
}

}  // namespace leat::onnx
