#include <cmath>
#include <type_traits>

#include "base/multiversion.h"
#include "compute/kernels/cpu/inline.h"
#include "compute/kernels/cpu/kernels.h"
#include "compute/kernels/cpu/math.h"
#include "compute/ops/activation/activation.h"
#include "compute/ops/elementwise/elementwise.h"
#include "compute/ops/loss/loss.h"
#include "compute/ops/shape/shape.h"

namespace leat::cpu {
namespace {

// An output may overwrite an input element by element. So the loops use ivdep, which allows that, and not
// restrict.

template <class T, class F>
LEAT_INLINE void Map(const float* x, T* y, size_t n, F f) {
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

template <class T, class F>
LEAT_INLINE void Map(const float* a, const float* b, T* y, size_t n, F f) {
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
}

using Unary = void (*)(const float* x, float* y, size_t n);

#define LEAT_UNARY(Name, expression)                                         \
  LEAT_MULTIVERSION void Name##Loop(const float* px, float* py, size_t n) {  \
    Map(px, py, n, [](float x) LEAT_INLINE_LAMBDA { return (expression); }); \
  }

LEAT_UNARY(Abs, std::fabs(x))
LEAT_UNARY(Ceil, std::ceil(x))
LEAT_UNARY(Erf, Erf(x))
LEAT_UNARY(Exp, Exp(x))
LEAT_UNARY(Expm1, Expm1(x))
LEAT_UNARY(Floor, std::floor(x))
LEAT_UNARY(Gelu, Gelu(x))
LEAT_UNARY(GeluByTanh, GeluByTanh(x))
LEAT_UNARY(Log, Log(x))
LEAT_UNARY(Neg, -x)
LEAT_UNARY(Reciprocal, 1.0f / x)
// NaN stays NaN.
LEAT_UNARY(Relu, x < 0.0f ? 0.0f : x)
LEAT_UNARY(Round, std::nearbyint(x))
LEAT_UNARY(Rsqrt, 1.0f / std::sqrt(x))
LEAT_UNARY(Sigmoid, Sigmoid(x))
LEAT_UNARY(Sign, (x > 0.0f ? 1.0f : 0.0f) - (x < 0.0f ? 1.0f : 0.0f))
LEAT_UNARY(Silu, x* Sigmoid(x))
LEAT_UNARY(Softplus, Softplus(x))
LEAT_UNARY(Sqrt, std::sqrt(x))
LEAT_UNARY(Square, x* x)
LEAT_UNARY(Tanh, Tanh(x))
#undef LEAT_UNARY

LEAT_MULTIVERSION void ScaleLoop(const float* x, float* y, size_t n, float factor, float offset) {
  Map(x, y, n, [=](float v) LEAT_INLINE_LAMBDA { return factor * v + offset; });
}

LEAT_MULTIVERSION void LeakyReluLoop(const float* x, float* y, size_t n, float slope) {
  Map(x, y, n, [=](float v) LEAT_INLINE_LAMBDA { return v > 0.0f ? v : slope * v; });
}

LEAT_MULTIVERSION void EluLoop(const float* x, float* y, size_t n, float alpha) {
  Map(x, y, n, [=](float v) LEAT_INLINE_LAMBDA { return v > 0.0f ? v : alpha * Expm1(v); });
}

LEAT_MULTIVERSION void ClipLoop(const float* x, float* y, size_t n, float low, float high) {
  Map(x, y, n, [=](float v) LEAT_INLINE_LAMBDA {
    const float above = v < low ? low : v;
    return above > high ? high : above;
  });
}

LEAT_MULTIVERSION void HuberLoop(const float* p, const float* t, float* y, size_t n, float delta) {
  Map(p, t, y, n, [=](float a, float b) LEAT_INLINE_LAMBDA {
    const float d = a - b, size = std::fabs(d);
    const float far = delta * (size - 0.5f * delta), near = 0.5f * d * d;
    return size > delta ? far : near;
  });
}

LEAT_MULTIVERSION void LeakyReluGradLoop(const float* x, const float* dy, float* dx, size_t n, float slope) {
  Map(x, dy, dx, n, [=](float v, float d) LEAT_INLINE_LAMBDA { return v > 0.0f ? d : slope * d; });
}

LEAT_MULTIVERSION void EluGradLoop(const float* x, const float* dy, float* dx, size_t n, float alpha) {
  Map(x, dy, dx, n, [=](float v, float d) LEAT_INLINE_LAMBDA { return v > 0.0f ? d : alpha * Exp(v) * d; });
}

LEAT_MULTIVERSION void ClipGradLoop(const float* x, const float* dy, float* dx, size_t n, float low,
                                    float high) {
  Map(x, dy, dx, n, [=](float v, float d) LEAT_INLINE_LAMBDA { return ((v > low) & (v < high)) ? d : 0.0f; });
}

using Binary = void (*)(const float* a, const float* b, float* y, size_t n);

#define LEAT_BINARY(Name, expression)                                                        \
  LEAT_MULTIVERSION void Name##Loop(const float* pa, const float* pb, float* py, size_t n) { \
    Map(pa, pb, py, n, [](float a, float b) LEAT_INLINE_LAMBDA { return (expression); });    \
  }

// a is the output of the op, b the gradient with respect to it.
LEAT_BINARY(ReluGrad, a > 0.0f ? b : 0.0f)
LEAT_BINARY(SigmoidGrad, b*(a*(1.0f - a)))
LEAT_BINARY(TanhGrad, b*(1.0f - a * a))
// Here a is the input of the op, b the gradient with respect to its output.
LEAT_BINARY(GeluGrad, b* GeluSlope(a))
LEAT_BINARY(GeluByTanhGrad, b* GeluByTanhSlope(a))
LEAT_BINARY(SiluGrad, b* SiluSlope(a))
LEAT_BINARY(AbsoluteError, std::fabs(a - b))
LEAT_BINARY(SquaredError, (a - b) * (a - b))
LEAT_BINARY(SigmoidCrossEntropy, SigmoidCrossEntropy(a, b))
#undef LEAT_BINARY

// y[outer, inner] of two tensors, each of which has both axes, one of them or none.
struct Grid {
  size_t outer = 1;
  size_t inner = 1;
  size_t a_step = 0;  // elements from one row to the next
  size_t b_step = 0;
  bool a_moves = true;  // along a row
  bool b_moves = true;
};

template <class T, class F>
LEAT_INLINE void MapGrid(const float* a, const float* b, T* y, const Grid& g, F f) {
  const size_t n = g.inner;
  for (size_t row = 0; row < g.outer; ++row, a += g.a_step, b += g.b_step, y += n) {
    if (g.a_moves && g.b_moves) {
      Map(a, b, y, n, f);
    } else if (g.a_moves) {
      const float right = *b;
      Map(a, y, n, [=](float left) LEAT_INLINE_LAMBDA { return f(left, right); });
    } else {
      const float left = *a;
      Map(b, y, n, [=](float right) LEAT_INLINE_LAMBDA { return f(left, right); });
    }
  }
}

#define LEAT_BROADCAST(Name, expression)                                                             \
  LEAT_MULTIVERSION void Name##Loop(const float* pa, const float* pb, float* py, const Grid& grid) { \
    MapGrid(pa, pb, py, grid, [](float a, float b) LEAT_INLINE_LAMBDA { return (expression); });     \
  }

LEAT_BROADCAST(Add, a + b)
LEAT_BROADCAST(Sub, a - b)
LEAT_BROADCAST(Mul, a* b)
LEAT_BROADCAST(Div, a / b)
// NaN if either is NaN.
LEAT_BROADCAST(Maximum, ((a > b) | (a != a)) ? a : b)
LEAT_BROADCAST(Minimum, ((a < b) | (a != a)) ? a : b)
#undef LEAT_BROADCAST

#define LEAT_COMPARE(Name, sign)                                                                        \
  LEAT_MULTIVERSION void Name##Loop(const float* pa, const float* pb, uint8_t* py, const Grid& grid) {  \
    MapGrid(pa, pb, py, grid, [](float a, float b) LEAT_INLINE_LAMBDA -> uint8_t { return a sign b; }); \
  }

LEAT_COMPARE(Equal, ==)
LEAT_COMPARE(NotEqual, !=)
LEAT_COMPARE(Less, <)
LEAT_COMPARE(LessEqual, <=)
LEAT_COMPARE(Greater, >)
LEAT_COMPARE(GreaterEqual, >=)
#undef LEAT_COMPARE

// An operand of `where`: it either moves along a row or stays, and advances by `step` from row to row.
struct Operand {
  bool moves = true;
  size_t step = 0;
};
struct Choice {
  size_t outer = 1;
  size_t inner = 1;
  Operand condition, a, b;
};

template <bool kCondition, bool kA, bool kB>
LEAT_INLINE void ChooseRows(const uint8_t* condition, const float* a, const float* b, float* y,
                            const Choice& c) {
  for (size_t row = 0; row < c.outer; ++row) {
#pragma GCC ivdep
    for (size_t i = 0; i < c.inner; ++i) {
      y[i] = condition[kCondition ? i : 0] != 0 ? a[kA ? i : 0] : b[kB ? i : 0];
    }
    condition += c.condition.step;
    a += c.a.step;
    b += c.b.step;
    y += c.inner;
  }
}

LEAT_MULTIVERSION
void Choose(const uint8_t* condition, const float* a, const float* b, float* y, const Choice& c) {
  if (!c.condition.moves) return ChooseRows<false, true, true>(condition, a, b, y, c);
  if (!c.a.moves) return ChooseRows<true, false, true>(condition, a, b, y, c);
  if (!c.b.moves) return ChooseRows<true, true, false>(condition, a, b, y, c);
  ChooseRows<true, true, true>(condition, a, b, y, c);
}

// The shapes as a grid; outer is 0 if they need more than two groups of axes.
Grid GridOf(const Shape& a, const Shape& b, const Shape& y) {
  constexpr unsigned kA = 1, kB = 2;
  const auto a_strides = ops::BroadcastStrides(a, y);
  const auto b_strides = ops::BroadcastStrides(b, y);
  std::vector<unsigned> moves;
  for (size_t i = 0; i < y.rank(); ++i) {
    moves.push_back((a_strides[i] != 0 ? kA : 0) | (b_strides[i] != 0 ? kB : 0));
  }
  std::vector<AxisGroup> groups = Collapse(y.sizes(), moves);
  if (groups.empty()) groups.push_back({1, kA | kB});
  if (groups.size() == 1) groups.insert(groups.begin(), {1, 0});
  if (groups.size() > 2) return {.outer = 0};
  const AxisGroup &outer = groups[0], &inner = groups[1];
  Grid grid{.outer = outer.size, .inner = inner.size};
  grid.a_moves = (inner.moves & kA) != 0;
  grid.b_moves = (inner.moves & kB) != 0;
  if (outer.moves & kA) grid.a_step = grid.a_moves ? inner.size : 1;
  if (outer.moves & kB) grid.b_step = grid.b_moves ? inner.size : 1;
  return grid;
}

graph::KernelFactory UnaryFactory(Unary loop) {
  return [loop](const KernelRequest& request) {
    const size_t n = Elements(request.outputs[0]);
    return Loop([=](const KernelArgs& args) { loop(In(args, 0), Out(args, 0), n); }, {0});
  };
}

graph::KernelFactory BinaryFactory(Binary loop) {
  return [loop](const KernelRequest& request) {
    const size_t n = Elements(request.outputs[0]);
    return Loop([=](const KernelArgs& args) { loop(In(args, 0), In(args, 1), Out(args, 0), n); }, {0, 0});
  };
}

// T: float, or u8 for a comparison.
template <class T>
graph::KernelFactory BroadcastFactory(void (*loop)(const float* a, const float* b, T* y, const Grid& grid)) {
  return [loop](const KernelRequest& request) -> KernelPtr {
    const Shape &a = request.inputs[0].shape, &b = request.inputs[1].shape, &y = request.outputs[0].shape;
    if (request.inputs[0].dtype != DType::kF32) return nullptr;
    // An empty output needs no work, and axes of size 0 have no groups.
    if (y.elements() == 0) return Loop([](const KernelArgs&) {});
    const Grid grid = GridOf(a, b, y);
    if (grid.outer == 0) return nullptr;
    std::vector<int> in_place;
    // A broadcast input is read again after the first row is written, so it must not be overwritten.
    if (std::is_same_v<T, float>) in_place = {a == y ? 0 : -1, b == y ? 0 : -1};
    return Loop(
        [=](const KernelArgs& args) {
          loop(In(args, 0), In(args, 1), reinterpret_cast<T*>(args.outputs[0]), grid);
        },
        std::move(in_place));
  };
}

KernelPtr MakeGelu(const KernelRequest& request) {
  const bool approximate = static_cast<const ops::Gelu&>(request.op).approximate;
  return UnaryFactory(approximate ? GeluByTanhLoop : GeluLoop)(request);
}

KernelPtr MakeGeluGrad(const KernelRequest& request) {
  const bool approximate = static_cast<const ops::GeluGrad&>(request.op).approximate;
  return BinaryFactory(approximate ? GeluByTanhGradLoop : GeluGradLoop)(request);
}

// y = loop(x, numbers of the op...), or y = loop(x, second tensor, numbers of the op...).
template <class Operation, auto kLoop, auto... kNumbers>
KernelPtr MakeUnaryOf(const KernelRequest& request) {
  const auto& op = static_cast<const Operation&>(request.op);
  const size_t n = Elements(request.outputs[0]);
  return Loop([&op, n](const KernelArgs& args) { kLoop(In(args, 0), Out(args, 0), n, (op.*kNumbers)...); },
              {0});
}

template <class Operation, auto kLoop, auto... kNumbers>
KernelPtr MakeBinaryOf(const KernelRequest& request) {
  const auto& op = static_cast<const Operation&>(request.op);
  const size_t n = Elements(request.outputs[0]);
  return Loop(
      [&op, n](const KernelArgs& args) {
        kLoop(In(args, 0), In(args, 1), Out(args, 0), n, (op.*kNumbers)...);
      },
      {0, 0});
}

KernelPtr MakeWhere(const KernelRequest& request) {
  const Shape& y = request.outputs[0].shape;
  if (request.outputs[0].dtype != DType::kF32) return nullptr;
  if (y.elements() == 0) return Loop([](const KernelArgs&) {});
  std::vector<unsigned> moves(y.rank(), 0);
  for (unsigned k = 0; k < 3; ++k) {
    const auto strides = ops::BroadcastStrides(request.inputs[k].shape, y);
    for (size_t i = 0; i < y.rank(); ++i) moves[i] |= strides[i] != 0 ? 1u << k : 0u;
  }
  std::vector<AxisGroup> groups = Collapse(y.sizes(), moves);
  if (groups.empty()) groups.push_back({1, 7});
  if (groups.size() == 1) groups.insert(groups.begin(), {1, 0});
  // Two operands that stay along a row are rare; the next table handles them.
  const unsigned inner = groups.back().moves;
  if (groups.size() > 2 || (inner != 7 && inner != 6 && inner != 5 && inner != 3)) return nullptr;
  Choice c{.outer = groups[0].size, .inner = groups[1].size};
  Operand* operands[] = {&c.condition, &c.a, &c.b};
  for (unsigned k = 0; k < 3; ++k) {
    operands[k]->moves = (inner >> k & 1) != 0;
    if (groups[0].moves >> k & 1) operands[k]->step = operands[k]->moves ? c.inner : 1;
  }
  return Loop(
      [c](const KernelArgs& args) {
        Choose(reinterpret_cast<const uint8_t*>(args.inputs[0]), In(args, 1), In(args, 2), Out(args, 0), c);
      },
      {-1, request.inputs[1].shape == y ? 0 : -1, request.inputs[2].shape == y ? 0 : -1});
}

KernelPtr MakeAddN(const KernelRequest& request) {
  const size_t n = Elements(request.outputs[0]);
  const size_t count = request.inputs.size();
  const Grid grid{.outer = 1, .inner = n};
  return Loop(
      [=](const KernelArgs& args) {
        float* y = Out(args, 0);
        if (count == 1) {
          ScaleLoop(In(args, 0), y, n, 1.0f, 0.0f);
          return;
        }
        AddLoop(In(args, 0), In(args, 1), y, grid);
        for (size_t i = 2; i < count; ++i) AddLoop(y, In(args, i), y, grid);
      },
      // The other inputs are read after the first sum is written, so they must not be overwritten.
      {0, 0});
}

}  // namespace

void AddElementwise(graph::KernelTable& table) {
  table.Add("abs", UnaryFactory(AbsLoop));
  table.Add("ceil", UnaryFactory(CeilLoop));
  table.Add("clip", MakeUnaryOf<ops::Clip, ClipLoop, &ops::Clip::low, &ops::Clip::high>);
  table.Add("elu", MakeUnaryOf<ops::Elu, EluLoop, &ops::Elu::alpha>);
  table.Add("erf", UnaryFactory(ErfLoop));
  table.Add("exp", UnaryFactory(ExpLoop));
  table.Add("expm1", UnaryFactory(Expm1Loop));
  table.Add("floor", UnaryFactory(FloorLoop));
  table.Add("gelu", MakeGelu);
  table.Add("leaky_relu", MakeUnaryOf<ops::LeakyRelu, LeakyReluLoop, &ops::LeakyRelu::slope>);
  table.Add("log", UnaryFactory(LogLoop));
  table.Add("neg", UnaryFactory(NegLoop));
  table.Add("reciprocal", UnaryFactory(ReciprocalLoop));
  table.Add("relu", UnaryFactory(ReluLoop));
  table.Add("round", UnaryFactory(RoundLoop));
  table.Add("rsqrt", UnaryFactory(RsqrtLoop));
  table.Add("scale", MakeUnaryOf<ops::Scale, ScaleLoop, &ops::Scale::factor, &ops::Scale::offset>);
  table.Add("sigmoid", UnaryFactory(SigmoidLoop));
  table.Add("sign", UnaryFactory(SignLoop));
  table.Add("silu", UnaryFactory(SiluLoop));
  table.Add("softplus", UnaryFactory(SoftplusLoop));
  table.Add("sqrt", UnaryFactory(SqrtLoop));
  table.Add("square", UnaryFactory(SquareLoop));
  table.Add("tanh", UnaryFactory(TanhLoop));
  table.Add("clip_grad",
            MakeBinaryOf<ops::ClipGrad, ClipGradLoop, &ops::ClipGrad::low, &ops::ClipGrad::high>);
  table.Add("elu_grad", MakeBinaryOf<ops::EluGrad, EluGradLoop, &ops::EluGrad::alpha>);
  table.Add("gelu_grad", MakeGeluGrad);
  table.Add("leaky_relu_grad",
            MakeBinaryOf<ops::LeakyReluGrad, LeakyReluGradLoop, &ops::LeakyReluGrad::slope>);
  table.Add("relu_grad", BinaryFactory(ReluGradLoop));
  table.Add("silu_grad", BinaryFactory(SiluGradLoop));
  table.Add("sigmoid_grad", BinaryFactory(SigmoidGradLoop));
  table.Add("tanh_grad", BinaryFactory(TanhGradLoop));
  table.Add("absolute_error", BinaryFactory(AbsoluteErrorLoop));
  table.Add("huber", MakeBinaryOf<ops::Huber, HuberLoop, &ops::Huber::delta>);
  table.Add("squared_error", BinaryFactory(SquaredErrorLoop));
  table.Add("sigmoid_cross_entropy", BinaryFactory(SigmoidCrossEntropyLoop));
  table.Add("add", BroadcastFactory(AddLoop));
  table.Add("add_n", MakeAddN);
  table.Add("sub", BroadcastFactory(SubLoop));
  table.Add("mul", BroadcastFactory(MulLoop));
  table.Add("div", BroadcastFactory(DivLoop));
  table.Add("maximum", BroadcastFactory(MaximumLoop));
  table.Add("minimum", BroadcastFactory(MinimumLoop));
  table.Add("equal", BroadcastFactory(EqualLoop));
  table.Add("not_equal", BroadcastFactory(NotEqualLoop));
  table.Add("less", BroadcastFactory(LessLoop));
  table.Add("less_equal", BroadcastFactory(LessEqualLoop));
  table.Add("greater", BroadcastFactory(GreaterLoop));
  table.Add("greater_equal", BroadcastFactory(GreaterEqualLoop));
  table.Add("where", MakeWhere);
  table.Add("bias_add", BroadcastFactory(AddLoop));
}

}  // namespace leat::cpu
