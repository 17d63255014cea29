// Writers of arithmetic, activations, reductions and matrix products.
#include <algorithm>
#include <optional>

#include "compute/onnx/write/writer.h"
#include "compute/ops/ops.h"
#include "compute/optim/moments.h"

namespace leat::onnx {
namespace {

// Leat's name of an op, and that of ONNX.
using Names = std::unordered_map<std::string_view, std::string_view>;

// Writes an element-wise op, in the layout of its input. `f` writes it and maps the input name to the output
// name.
template <class F>
void Elementwise(Writer& w, const Node& node, F f) {
  const bool first = w.IsFirst(node.inputs[0]);
  w.Put(Out(node), first, f(w.As(node.inputs[0], first)));
}

const Names& UnaryNames() {
  static const auto* names = new Names{{"abs", "Abs"},   {"ceil", "Ceil"},   {"cos", "Cos"},
                                       {"erf", "Erf"},   {"exp", "Exp"},     {"floor", "Floor"},
                                       {"log", "Log"},   {"neg", "Neg"},     {"reciprocal", "Reciprocal"},
                                       {"relu", "Relu"}, {"round", "Round"}, {"sigmoid", "Sigmoid"},
                                       {"sign", "Sign"}, {"sin", "Sin"},     {"softplus", "Softplus"},
                                       {"sqrt", "Sqrt"}, {"tanh", "Tanh"}};
  return *names;
}

void WriteUnary(Writer& w, const Node& node) {
  Elementwise(w, node,
              [&](const std::string& x) { return w.Node(UnaryNames().at(node.op->kind()), {x}, node.name); });
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
  if (As<ops::Gelu>(node).approximate) w.Fail("the tanh approximation cannot be written");
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

// The name of `v`, reordered to broadcast against a channels-first tensor; empty if that is impossible.
std::optional<std::string> Beside(Writer& w, Value v) {
  const Shape& shape = w.shape(v);
  if (shape.rank() == 4) return w.First(v);
  if (shape.elements() == 1 && shape.rank() < 2) return w.Plain(v);
  if (shape.rank() != 1) return std::nullopt;
  const std::string name = w.graph().node(v).name + "/channels";
  return w.Node("Unsqueeze", {w.Plain(v), w.Ints({1, 2}, name + "/axes")}, name);
}

const Names& BinaryNames() {
  static const auto* names = new Names{{"add", "Add"}, {"div", "Div"}, {"maximum", "Max"}, {"minimum", "Min"},
                                       {"mul", "Mul"}, {"pow", "Pow"}, {"sub", "Sub"}};
  return *names;
}

void WriteBinary(Writer& w, const Node& node) {
  const std::string_view op = BinaryNames().at(node.op->kind());
  const Value a = node.inputs[0], b = node.inputs[1];
  if ((w.IsFirst(a) || w.IsFirst(b)) && w.shape(a).rank() <= 4 && w.shape(b).rank() <= 4) {
    const auto left = Beside(w, a), right = Beside(w, b);
    if (left && right) return w.Put(Out(node), true, w.Node(op, {*left, *right}, node.name));
  }
  w.Put(Out(node), false, w.Node(op, {w.Plain(a), w.Plain(b)}, node.name));
}

const Names& CompareNames() {
  static const auto* names = new Names{{"equal", "Equal"},
                                       {"greater", "Greater"},
                                       {"greater_equal", "GreaterOrEqual"},
                                       {"less", "Less"},
                                       {"less_equal", "LessOrEqual"}};
  return *names;
}

void WriteCompare(Writer& w, const Node& node) {
  const std::string holds = w.Node(CompareNames().at(node.op->kind()),
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

const Names& ReduceNames() {
  static const auto* names =
      new Names{{"log_sum_exp", "ReduceLogSumExp"}, {"reduce_l2", "ReduceL2"},   {"reduce_max", "ReduceMax"},
                {"reduce_mean", "ReduceMean"},      {"reduce_min", "ReduceMin"}, {"reduce_sum", "ReduceSum"}};
  return *names;
}

void WriteReduce(Writer& w, const Node& node) {
  const auto& op = As<ops::ReduceOp>(node);
  const auto reduced = op.Reduced(w.shape(node.inputs[0]).rank());
  Ints axes;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (reduced[i]) axes.push_back(static_cast<int64_t>(i));
  }
  bool first = w.IsFirst(node.inputs[0]);
  // Without keep_dims, the remaining axes must have the same order in both layouts.
  if (first && !op.keep_dims) first = axes == Ints{1, 2};
  if (first) {
    for (auto& axis : axes) axis = kPlaceFirst[axis];
    std::ranges::sort(axes);
  }
  std::vector<std::string> inputs = {w.As(node.inputs[0], first)};
  // Axes are an input since opset 13 for ReduceSum, since 18 for the others.
  const bool as_input = node.op->kind() == "reduce_sum";
  if (as_input) inputs.push_back(w.Ints(axes, node.name + "/axes"));
  w.Put(Out(node), first && op.keep_dims, w.Node(ReduceNames().at(node.op->kind()), inputs, node.name));
  if (!as_input) w.Attribute("axes", axes);
  w.Attribute("keepdims", int64_t{op.keep_dims});
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

// As constants, from the saved moments.
void WriteMomentsScaling(Writer& w, const Node& node) {
  const auto saved = w.VariableValues(node.inputs[0]);
  const Tensor* const columns = graph::ConstantValue(*w.graph().node(node.inputs[2]).op);
  if (columns == nullptr) w.Fail("computed columns cannot be written");
  const Shape& row = As<ops::MomentsScaling>(node).row;
  const auto size = static_cast<size_t>(row.elements());
  std::vector<float> shift(size, 0), rest(size, 0), factor(size, 1);
  const auto at = columns->as<const int32_t>();
  for (size_t c = 0; c < at.size(); ++c) {
    const optim::Scaling by = optim::ScalingOf(optim::GetMoments(saved, c));
    const auto column = static_cast<size_t>(at[c]);
    shift[column] = by.shift;
    rest[column] = by.rest;
    factor[column] = by.factor;
  }
  w.Put(Out(node, 0), false, w.Floats(row, shift, node.name + "/shift"));
  w.Put(Out(node, 1), false, w.Floats(row, rest, node.name + "/rest"));
  w.Put(Out(node, 2), false, w.Floats(row, factor, node.name + "/factor"));
}

// The moments of a batch count only in training.
void WriteNothing(Writer&, const Node&) {}

}  // namespace

void AddMathWriters(WriterTable& table) {
  for (const auto& [kind, name] : UnaryNames()) table.Add(kind, WriteUnary);
  for (const auto& [kind, name] : BinaryNames()) table.Add(kind, WriteBinary);
  for (const auto& [kind, name] : CompareNames()) table.Add(kind, WriteCompare);
  for (const auto& [kind, name] : ReduceNames()) table.Add(kind, WriteReduce);
  table.Add("batch_matmul", WriteBatchMatMul);
  table.Add("bias_add", UnlessRecurrent<WriteBiasAdd>);
  table.Add("clip", WriteClip);
  table.Add("elu", WriteElu);
  table.Add("gelu", WriteGelu);
  table.Add("leaky_relu", WriteLeakyRelu);
  table.Add("log_softmax", WriteSoftmax);
  table.Add("matmul", UnlessRecurrent<WriteMatMul>);
  table.Add("moments", WriteNothing);
  table.Add("moments_scaling", WriteMomentsScaling);
  table.Add("power", WritePower);
  table.Add("rsqrt", WriteRsqrt);
  table.Add("scale", WriteScale);
  table.Add("silu", WriteSilu);
  table.Add("softmax", WriteSoftmax);
  table.Add("square", WriteSquare);
  table.Add("where", WriteWhere);
}

}  // namespace leat::onnx
