#include <cmath>
#include <string_view>

#include "base/multiversion.h"
#include "kernels/onednn/inline.h"
#include "kernels/onednn/kernels.h"
#include "kernels/onednn/math.h"
#include "ops/elementwise/scale.h"
#include "ops/shape/broadcast.h"

namespace leat::onednn {
namespace {

// Outputs may lie in the memory of an input, element on element: that is what ivdep may promise, and restrict
// may not.

template <class F>
LEAT_INLINE void Map(const float* x, float* y, size_t n, F f) {
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

template <class F>
LEAT_INLINE void Map(const float* a, const float* b, float* y, size_t n, F f) {
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
}

using Unary = void (*)(const float* x, float* y, size_t n);

#define LEAT_UNARY(Name, expression)                                         \
  LEAT_MULTIVERSION void Name##Loop(const float* px, float* py, size_t n) {  \
    Map(px, py, n, [](float x) LEAT_INLINE_LAMBDA { return (expression); }); \
  }

LEAT_UNARY(Abs, std::fabs(x))
LEAT_UNARY(Exp, Exp(x))
LEAT_UNARY(Log, Log(x))
LEAT_UNARY(Neg, -x)
// NaN stays NaN.
LEAT_UNARY(Relu, x < 0.0f ? 0.0f : x)
LEAT_UNARY(Sigmoid, Sigmoid(x))
LEAT_UNARY(Sign, (x > 0.0f ? 1.0f : 0.0f) - (x < 0.0f ? 1.0f : 0.0f))
LEAT_UNARY(Sqrt, std::sqrt(x))
LEAT_UNARY(Square, x* x)
LEAT_UNARY(Tanh, Tanh(x))
#undef LEAT_UNARY

LEAT_MULTIVERSION void ScaleLoop(const float* x, float* y, size_t n, float factor, float offset) {
  Map(x, y, n, [=](float v) LEAT_INLINE_LAMBDA { return factor * v + offset; });
}

using Binary = void (*)(const float* a, const float* b, float* y, size_t n);

#define LEAT_BINARY(Name, expression)                                                        \
  LEAT_MULTIVERSION void Name##Loop(const float* pa, const float* pb, float* py, size_t n) { \
    Map(pa, pb, py, n, [](float a, float b) LEAT_INLINE_LAMBDA { return (expression); });    \
  }

// a is the output that the gradient starts from, b the gradient by it.
LEAT_BINARY(ReluGrad, a > 0.0f ? b : 0.0f)
LEAT_BINARY(SigmoidGrad, b*(a*(1.0f - a)))
LEAT_BINARY(TanhGrad, b*(1.0f - a * a))
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

template <class F>
LEAT_INLINE void MapGrid(const float* a, const float* b, float* y, const Grid& g, F f) {
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

using Broadcast = void (*)(const float* a, const float* b, float* y, const Grid& grid);

#define LEAT_BROADCAST(Name, expression)                                                             \
  LEAT_MULTIVERSION void Name##Loop(const float* pa, const float* pb, float* py, const Grid& grid) { \
    MapGrid(pa, pb, py, grid, [](float a, float b) LEAT_INLINE_LAMBDA { return (expression); });     \
  }

LEAT_BROADCAST(Add, a + b)
LEAT_BROADCAST(Sub, a - b)
LEAT_BROADCAST(Mul, a* b)
LEAT_BROADCAST(Div, a / b)
#undef LEAT_BROADCAST

// The shapes as a grid; outer is 0 when they take more than two groups of axes.
Grid GridOf(const Shape& a, const Shape& b, const Shape& y) {
  constexpr unsigned kA = 1, kB = 2;
  const auto a_strides = ops::BroadcastStrides(a, y);
  const auto b_strides = ops::BroadcastStrides(b, y);
  std::vector<unsigned> moves;
  for (size_t i = 0; i < y.rank(); ++i) {
    moves.push_back((a_strides[i] != 0 ? kA : 0) | (b_strides[i] != 0 ? kB : 0));
  }
  std::vector<Group> groups = Collapse(y.sizes(), moves);
  if (groups.empty()) groups.push_back({1, kA | kB});
  if (groups.size() == 1) groups.insert(groups.begin(), {1, 0});
  if (groups.size() > 2) return {.outer = 0};
  const Group &outer = groups[0], &inner = groups[1];
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

graph::KernelFactory BroadcastFactory(Broadcast loop) {
  return [loop](const KernelRequest& request) -> KernelPtr {
    const Shape &a = request.inputs[0].shape, &b = request.inputs[1].shape, &y = request.outputs[0].shape;
    // Of nothing there is nothing to compute, and axes of size 0 have no groups.
    if (y.elements() == 0) return Loop([](const KernelArgs&) {});
    const Grid grid = GridOf(a, b, y);
    if (grid.outer == 0) return nullptr;
    // A stretched input is read again after its first row is written.
    return Loop([=](const KernelArgs& args) { loop(In(args, 0), In(args, 1), Out(args, 0), grid); },
                {a == y ? 0 : -1, b == y ? 0 : -1});
  };
}

}  // namespace

KernelPtr MakeScale(const KernelRequest& request) {
  const auto& op = static_cast<const ops::Scale&>(request.op);
  const size_t n = Elements(request.outputs[0]);
  return Loop([=, factor = op.factor, offset = op.offset](
                  const KernelArgs& args) { ScaleLoop(In(args, 0), Out(args, 0), n, factor, offset); },
              {0});
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
      // The others are read only after the first two were added.
      {0, 0});
}

void AddElementwise(graph::KernelTable& table) {
  table.factories.insert({
      {"abs", UnaryFactory(AbsLoop)},
      {"exp", UnaryFactory(ExpLoop)},
      {"log", UnaryFactory(LogLoop)},
      {"neg", UnaryFactory(NegLoop)},
      {"relu", UnaryFactory(ReluLoop)},
      {"sigmoid", UnaryFactory(SigmoidLoop)},
      {"sign", UnaryFactory(SignLoop)},
      {"sqrt", UnaryFactory(SqrtLoop)},
      {"square", UnaryFactory(SquareLoop)},
      {"tanh", UnaryFactory(TanhLoop)},
      {"relu_grad", BinaryFactory(ReluGradLoop)},
      {"sigmoid_grad", BinaryFactory(SigmoidGradLoop)},
      {"tanh_grad", BinaryFactory(TanhGradLoop)},
      {"squared_error", BinaryFactory(SquaredErrorLoop)},
      {"sigmoid_cross_entropy", BinaryFactory(SigmoidCrossEntropyLoop)},
      {"add", BroadcastFactory(AddLoop)},
      {"sub", BroadcastFactory(SubLoop)},
      {"mul", BroadcastFactory(MulLoop)},
      {"div", BroadcastFactory(DivLoop)},
      {"bias_add", BroadcastFactory(AddLoop)},
  });
}

}  // namespace leat::onednn
