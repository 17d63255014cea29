// Element-wise ops, matrix products and reductions.
#include <cmath>
#include <limits>

#include "compute/onnx/attributes.h"
#include "compute/onnx/build.h"
#include "compute/ops/ops.h"

namespace leat::onnx {
namespace {

// Moves an element-wise op before a reshape, where it can be fused with a product and bias.
template <class Make>
Value UnderReshape(Graph& graph, Value x, std::string_view under, Make make) {
  const auto& node = graph.node(x);
  if (node.op->kind() != "reshape" || graph.node(node.inputs[0]).op->kind() != under) return make(x);
  const Value inner = make(node.inputs[0]);
  return graph.Make<ops::Reshape>({inner}, graph.shape(x));
}

template <class Make>
void KeepLayout(const NodeContext& call, Make make) {
  if (call.IsLast(0)) return call.OutLast(0, make(call.F32Last(0)));
  call.Out(0, UnderReshape(call.graph(), call.F32(0), "bias_add", make));
}

template <class O, class... Args>
void Unary(const NodeContext& call, Args... args) {
  KeepLayout(call, [&](Value x) { return call.graph().Make<O>({x}, args...); });
}

template <class O>
void Plainly(const NodeContext& call) {
  Unary<O>(call);
}

// Input i, reordered to broadcast against a channels-last tensor.
Value AlignLast(const NodeContext& call, size_t i) {
  Graph& graph = call.graph();
  const Shape& shape = call.ShapeOf(i);
  if (shape.rank() == 4) return call.F32Last(i);
  const Value x = call.F32(i);
  if (shape.elements() == 1) return graph.Make<ops::Reshape>({x}, Shape{});
  std::vector<int64_t> sizes(4 - shape.rank(), 1);
  sizes.insert(sizes.end(), shape.sizes().begin(), shape.sizes().end());
  const Value four = graph.Make<ops::Reshape>({x}, Shape(sizes));
  return graph.Make<ops::Transpose>({four}, std::vector<int>{0, 2, 3, 1});
}

// Two inputs of a broadcasting op, and whether they are channels last.
struct Operands {
  Value a, b;
  bool last;
};
Operands Aligned(const NodeContext& call, size_t i, size_t j) {
  const bool last =
      (call.IsLast(i) && call.ShapeOf(j).rank() <= 4) || (call.IsLast(j) && call.ShapeOf(i).rank() <= 4);
  if (last) return {AlignLast(call, i), AlignLast(call, j), true};
  return {call.F32(i), call.F32(j), false};
}

template <class O>
void Binary(const NodeContext& call) {
  const auto [a, b, last] = Aligned(call, 0, 1);
  call.Put(0, call.graph().Make<O>({a, b}), last);
}

// The value of a constant f32 input with one element that does not change the broadcast shape beside input
// `other`.
std::optional<float> ScalarBeside(const NodeContext& call, size_t i, size_t other) {
  const OnnxValue& val = call.In(i);
  if (!val.known || val.type != DType::kF32 || val.shape.elements() != 1) return std::nullopt;
  if (call.In(other).type != DType::kF32 || val.shape.rank() > call.ShapeOf(other).rank())
    return std::nullopt;
  const float value = val.known->as<float>()[0];
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

void Scaled(const NodeContext& call, size_t i, float factor, float offset) {
  const bool last = call.IsLast(i);
  call.Put(0, call.graph().Make<ops::Scale>({call.F32(i, last)}, factor, offset), last);
}

void BuildAdd(const NodeContext& call) {
  if (const auto b = ScalarBeside(call, 1, 0)) return Scaled(call, 0, 1, *b);
  if (const auto a = ScalarBeside(call, 0, 1)) return Scaled(call, 1, 1, *a);
  for (const size_t bias : {size_t{1}, size_t{0}}) {
    const Shape &x = call.ShapeOf(1 - bias), &b = call.ShapeOf(bias);
    if (b.rank() != 1 || x.rank() < 2 || x[x.rank() - 1] != b[0] || call.IsLast(1 - bias)) continue;
    Graph& graph = call.graph();
    const Value v = call.F32(bias), in = call.F32(1 - bias);
    const auto add = [&](Value to) { return graph.Make<ops::BiasAdd>({to, v}); };
    // Before a reshape that splits the product's columns, the bias would not fit.
    const auto& before = graph.node(in).inputs;
    const bool fits = !before.empty() && graph.shape(before[0]).rank() > 0 &&
                      graph.shape(before[0])[graph.shape(before[0]).rank() - 1] == b[0];
    return call.Out(0, fits ? UnderReshape(graph, in, "matmul", add) : add(in));
  }
  Binary<ops::Add>(call);
}

void BuildSub(const NodeContext& call) {
  if (const auto b = ScalarBeside(call, 1, 0)) return Scaled(call, 0, 1, -*b);
  if (const auto a = ScalarBeside(call, 0, 1)) return Scaled(call, 1, -1, *a);
  Binary<ops::Sub>(call);
}

void BuildMul(const NodeContext& call) {
  if (const auto b = ScalarBeside(call, 1, 0)) return Scaled(call, 0, *b, 0);
  if (const auto a = ScalarBeside(call, 0, 1)) return Scaled(call, 1, *a, 0);
  if (call.node.inputs[0] == call.node.inputs[1]) return Unary<ops::Square>(call);
  Binary<ops::Mul>(call);
}

void BuildDiv(const NodeContext& call) {
  if (const auto b = ScalarBeside(call, 1, 0); b && std::isfinite(1 / *b)) return Scaled(call, 0, 1 / *b, 0);
  Binary<ops::Div>(call);
}

void BuildPow(const NodeContext& call) {
  const OnnxValue& exponent = call.In(1);
  if (!exponent.known || exponent.shape.elements() != 1) return Binary<ops::Pow>(call);
  const float e = exponent.type == DType::kF32 ? exponent.known->as<float>()[0]
                                               : static_cast<float>(Integers(*exponent.known)[0]);
  if (e == 1) return call.Forward(0, 0);
  if (e == 2) return Unary<ops::Square>(call);
  if (e == 0.5f) return Unary<ops::Sqrt>(call);
  Unary<ops::Power>(call, e);
}

// Min, Max, Sum, Mean of any number of tensors.
template <class O>
void Variadic(const NodeContext& call) {
  if (call.inputs() == 0) Fail("has no inputs");
  Graph& graph = call.graph();
  Value total;
  bool last = false;
  if (call.inputs() == 2) {
    const Operands two = Aligned(call, 0, 1);
    total = graph.Make<O>({two.a, two.b});
    last = two.last;
  } else {
    total = call.F32(0);
    for (size_t i = 1; i < call.inputs(); ++i) total = graph.Make<O>({total, call.F32(i)});
  }
  if (call.node.op == "Mean") {
    total = graph.Make<ops::Scale>({total}, 1 / static_cast<float>(call.inputs()));
  }
  call.Put(0, total, last);
}

void BuildClip(const NodeContext& call) {
  float low = std::numeric_limits<float>::lowest(), high = std::numeric_limits<float>::max();
  if (call.Has(1)) low = std::max(low, call.KnownScalar(1));
  if (call.Has(2)) high = std::min(high, call.KnownScalar(2));
  if (low == 0 && high == std::numeric_limits<float>::max()) return Unary<ops::Relu>(call);
  Unary<ops::Clip>(call, low, high);
}

// log x. Exporters write logarithms of a sigmoid, a softmax and a sum of two exponentials as two ops, of
// which the first underflows or overflows; here each is one function.
Value StableLog(Graph& graph, Value x) {
  const graph::Node& node = graph.node(x);
  const auto is = [&](Value v, std::string_view kind) { return graph.node(v).op->kind() == kind; };
  const auto of = [&](Value v) { return graph.node(v).inputs[0]; };
  if (is(x, "reshape") || is(x, "transpose")) return graph.Add(node.op, {StableLog(graph, of(x))});
  if (is(x, "softmax")) return graph.Make<ops::LogSoftmax>({of(x)});
  if (is(x, "sigmoid"))
    return graph.Make<ops::Neg>({graph.Make<ops::Softplus>({graph.Make<ops::Neg>({of(x)})})});
  if (const auto* scale = dynamic_cast<const ops::Scale*>(node.op.get());
      scale != nullptr && scale->factor == 1 && scale->offset == 1 && is(of(x), "exp")) {
    return graph.Make<ops::Softplus>({of(of(x))});
  }
  if (is(x, "add") && is(node.inputs[0], "exp") && is(node.inputs[1], "exp")) {
    const Value a = of(node.inputs[0]), b = of(node.inputs[1]);
    const Value apart = graph.Make<ops::Abs>({graph.Make<ops::Sub>({a, b})});
    return graph.Make<ops::Add>(
        {graph.Make<ops::Maximum>({a, b}), graph.Make<ops::Softplus>({graph.Make<ops::Neg>({apart})})});
  }
  return graph.Make<ops::Log>({x});
}

void BuildLog(const NodeContext& call) {
  KeepLayout(call, [&](Value x) { return StableLog(call.graph(), x); });
}

void BuildLeakyRelu(const NodeContext& call) {
  Unary<ops::LeakyRelu>(call, FloatAttribute(call.node, "alpha", 0.01f));
}

void BuildElu(const NodeContext& call) {
  Unary<ops::Elu>(call, FloatAttribute(call.node, "alpha", 1));
}

void BuildSelu(const NodeContext& call) {
  const float alpha = FloatAttribute(call.node, "alpha", 1.67326319217681884765625f);
  const float gamma = FloatAttribute(call.node, "gamma", 1.05070102214813232421875f);
  KeepLayout(call, [&](Value x) {
    return call.graph().Make<ops::Scale>({call.graph().Make<ops::Elu>({x}, alpha)}, gamma);
  });
}

void BuildPRelu(const NodeContext& call) {
  Graph& graph = call.graph();
  const auto [x, slope, last] = Aligned(call, 0, 1);
  const Value above = graph.Make<ops::Greater>({x, graph.Make<graph::Constant>({}, 0.0f)});
  call.Put(0, graph.Make<ops::Where>({above, x, graph.Make<ops::Mul>({x, slope})}), last);
}

void BuildGelu(const NodeContext& call) {
  const auto how = StringAttribute(call.node, "approximate", "none");
  if (how != "none" && how != "tanh") Fail("approximate is " + Quoted(how) + "; must be none or tanh");
  Unary<ops::Gelu>(call, how == "tanh");
}

void BuildHardSigmoid(const NodeContext& call) {
  const float alpha = FloatAttribute(call.node, "alpha", 0.2f),
              beta = FloatAttribute(call.node, "beta", 0.5f);
  KeepLayout(call, [&](Value x) { return ops::HardSigmoid(call.graph(), x, alpha, beta); });
}

void BuildHardSwish(const NodeContext& call) {
  KeepLayout(call, [&](Value x) { return ops::HardSwish(call.graph(), x); });
}

void BuildSoftsign(const NodeContext& call) {
  Graph& graph = call.graph();
  KeepLayout(call, [&](Value x) {
    return graph.Make<ops::Div>({x, graph.Make<ops::Scale>({graph.Make<ops::Abs>({x})}, 1.0f, 1.0f)});
  });
}

// Comparisons and choices: an op of the inputs `kInputs`, of any type.
template <class O, size_t... kInputs>
void Choose(const NodeContext& call) {
  call.Out(0, call.graph().Make<O>({call.Plain(kInputs)...}));
}

// Softmax along any axis, through a transpose to the last.
template <class O>
void AlongAxis(const NodeContext& call) {
  Graph& graph = call.graph();
  const size_t rank = call.ShapeOf(0).rank();
  const size_t axis = AxisOf(IntAttribute(call.node, "axis", -1), rank);
  if (call.IsLast(0) && axis == 1) return call.OutLast(0, graph.Make<O>({call.F32Last(0)}));
  if (axis + 1 == rank) return call.Out(0, graph.Make<O>({call.F32(0)}));
  std::vector<int> swap(rank);
  for (size_t i = 0; i < rank; ++i) swap[i] = static_cast<int>(i);
  std::swap(swap[axis], swap[rank - 1]);
  const Value y = graph.Make<O>({graph.Make<ops::Transpose>({call.F32(0)}, swap)});
  call.Out(0, graph.Make<ops::Transpose>({y}, swap));
}

// Products of matrices.

// The matrices that x is the transpose of (then *transposed is set), or x.
Value Untransposed(const Graph& graph, Value x, bool* transposed) {
  const auto& node = graph.node(x);
  const auto* op = dynamic_cast<const ops::Transpose*>(node.op.get());
  if (op == nullptr || op->permutation.size() < 2) return x;
  auto expected = op->permutation;
  const size_t rank = expected.size();
  for (size_t i = 0; i < rank; ++i) expected[i] = static_cast<int>(i);
  std::swap(expected[rank - 1], expected[rank - 2]);
  if (op->permutation != expected) return x;
  *transposed = true;
  return node.inputs[0];
}

void BuildMatMul(const NodeContext& call) {
  Graph& graph = call.graph();
  const Shape a = call.ShapeOf(0), b = call.ShapeOf(1);
  if (a.rank() == 0 || b.rank() == 0)
    Fail("does not support scalars: " + a.ToString() + " x " + b.ToString());
  Value x = call.F32(0), w = call.F32(1);
  if (a.rank() == 1) x = graph.Make<ops::Reshape>({x}, Shape{1, a[0]});
  if (b.rank() == 1) w = graph.Make<ops::Reshape>({w}, Shape{b[0], 1});
  const Shape xs = graph.shape(x);
  Value y;
  if (graph.shape(w).rank() == 2) {
    bool transposed = false;
    w = Untransposed(graph, w, &transposed);
    const int64_t inner = xs[xs.rank() - 1];
    if (inner == 0) Fail("has no columns: " + a.ToString() + " x " + b.ToString());
    if (xs.rank() > 2) x = graph.Make<ops::Reshape>({x}, Shape{xs.elements() / inner, inner});
    y = graph.Make<ops::MatMul>({x, w}, false, transposed);
    if (xs.rank() > 2) {
      auto sizes = ops::SizesOf(xs);
      sizes.back() = graph.shape(y)[1];
      y = graph.Make<ops::Reshape>({y}, Shape(sizes));
    }
  } else {
    bool ta = false, tb = false;
    x = Untransposed(graph, x, &ta);
    w = Untransposed(graph, w, &tb);
    y = graph.Make<ops::BatchMatMul>({x, w}, ta, tb);
  }
  if (a.rank() == 1 || b.rank() == 1) {
    auto sizes = ops::SizesOf(graph.shape(y));
    if (a.rank() == 1) sizes.erase(sizes.end() - 2);
    if (b.rank() == 1) sizes.pop_back();
    y = graph.Make<ops::Reshape>({y}, Shape(sizes));
  }
  call.Out(0, y);
}

void BuildGemm(const NodeContext& call) {
  Graph& graph = call.graph();
  const float alpha = FloatAttribute(call.node, "alpha", 1), beta = FloatAttribute(call.node, "beta", 1);
  const bool ta = IntAttribute(call.node, "transA", 0) != 0, tb = IntAttribute(call.node, "transB", 0) != 0;
  Value y = graph.Make<ops::MatMul>({call.F32(0), call.F32(1)}, ta, tb);
  if (alpha != 1) y = graph.Make<ops::Scale>({y}, alpha);
  if (call.Has(2) && beta != 0) {
    Value c = call.F32(2);
    if (beta != 1) c = graph.Make<ops::Scale>({c}, beta);
    const Shape &bias = graph.shape(c), &product = graph.shape(y);
    if (bias.rank() == 1 && bias[0] == product[1]) {
      y = graph.Make<ops::BiasAdd>({y, c});
    } else {
      if (ops::BroadcastShape(bias, product) != product) {
        Fail("C " + bias.ToString() + " does not broadcast to " + product.ToString());
      }
      y = graph.Make<ops::Add>({y, c});
    }
  }
  call.Out(0, y);
}

// Along axes.

std::vector<int64_t> AxesOf(const NodeContext& call) {
  if (const auto axes = IntsAttribute(call.node, "axes")) return *axes;
  return call.Has(1) ? call.KnownInts(1) : std::vector<int64_t>{};
}

// `squared`: of the squares of the elements.
template <class O, bool squared = false>
void Reduce(const NodeContext& call) {
  Graph& graph = call.graph();
  const size_t rank = call.ShapeOf(0).rank();
  std::vector<int> axes;
  for (const int64_t axis : AxesOf(call)) axes.push_back(static_cast<int>(AxisOf(axis, rank)));
  if (axes.empty() && IntAttribute(call.node, "noop_with_empty_axes", 0) != 0) {
    if (squared) Fail("over no axes is not supported");
    return call.Forward(0, 0);
  }
  const bool keep = IntAttribute(call.node, "keepdims", 1) != 0;
  const auto squares = [&](Value x) { return squared ? graph.Make<ops::Mul>({x, x}) : x; };
  if (call.IsLast(0)) {
    // Positions of batch, channels, height, width in channels-last layout.
    static constexpr int kPlace[] = {0, 3, 1, 2};
    auto moved = axes;
    for (auto& axis : moved) axis = kPlace[axis];
    if (keep && !axes.empty()) return call.OutLast(0, graph.Make<O>({squares(call.F32Last(0))}, moved, true));
    if (axes == std::vector<int>{2, 3})
      return call.Out(0, graph.Make<O>({squares(call.F32Last(0))}, moved, false));
  }
  call.Out(0, graph.Make<O>({squares(call.F32(0))}, axes, keep));
}

constexpr OpRow kMathOps[] = {
    {"Abs", Plainly<ops::Abs>},
    {"Add", BuildAdd},
    {"And", Choose<ops::LogicalAnd, 0, 1>},
    {"Ceil", Plainly<ops::Ceil>},
    {"Clip", BuildClip},
    {"Cos", Plainly<ops::Cos>},
    {"Div", BuildDiv},
    {"Elu", BuildElu},
    {"Equal", Choose<ops::Equal, 0, 1>},
    {"Erf", Plainly<ops::Erf>},
    {"Exp", Plainly<ops::Exp>},
    {"Floor", Plainly<ops::Floor>},
    {"Gelu", BuildGelu},
    {"Gemm", BuildGemm},
    {"Greater", Choose<ops::Greater, 0, 1>},
    {"GreaterOrEqual", Choose<ops::GreaterEqual, 0, 1>},
    {"HardSigmoid", BuildHardSigmoid},
    {"HardSwish", BuildHardSwish},
    {"LeakyRelu", BuildLeakyRelu},
    {"Less", Choose<ops::Less, 0, 1>},
    {"LessOrEqual", Choose<ops::LessEqual, 0, 1>},
    {"Log", BuildLog},
    {"LogSoftmax", AlongAxis<ops::LogSoftmax>},
    {"MatMul", BuildMatMul},
    {"Max", Variadic<ops::Maximum>},
    {"Mean", Variadic<ops::Add>},
    {"Min", Variadic<ops::Minimum>},
    {"Mul", BuildMul},
    {"Neg", Plainly<ops::Neg>},
    {"Not", Choose<ops::LogicalNot, 0>},
    {"Or", Choose<ops::LogicalOr, 0, 1>},
    {"PRelu", BuildPRelu},
    {"Pow", BuildPow},
    {"Reciprocal", Plainly<ops::Reciprocal>},
    {"ReduceL2", Reduce<ops::ReduceL2>},
    {"ReduceLogSumExp", Reduce<ops::LogSumExp>},
    {"ReduceMax", Reduce<ops::ReduceMax>},
    {"ReduceMean", Reduce<ops::ReduceMean>},
    {"ReduceMin", Reduce<ops::ReduceMin>},
    {"ReduceSum", Reduce<ops::ReduceSum>},
    {"ReduceSumSquare", Reduce<ops::ReduceSum, true>},
    {"Relu", Plainly<ops::Relu>},
    {"Round", Plainly<ops::Round>},
    {"Selu", BuildSelu},
    {"Sigmoid", Plainly<ops::Sigmoid>},
    {"Sign", Plainly<ops::Sign>},
    {"Sin", Plainly<ops::Sin>},
    {"Softmax", AlongAxis<ops::Softmax>},
    {"Softplus", Plainly<ops::Softplus>},
    {"Softsign", BuildSoftsign},
    {"Sqrt", Plainly<ops::Sqrt>},
    {"Sub", BuildSub},
    {"Sum", Variadic<ops::Add>},
    {"Tanh", Plainly<ops::Tanh>},
    {"Where", Choose<ops::Where, 0, 1, 2>},
    {"Xor", Choose<ops::LogicalXor, 0, 1>},
};

}  // namespace

std::span<const OpRow> MathOps() {
  return kMathOps;
}

}  // namespace leat::onnx
