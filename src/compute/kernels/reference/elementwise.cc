#include <cmath>

#include "compute/kernels/reference/kernels.h"
#include "compute/ops/activation/activation.h"
#include "compute/ops/elementwise/elementwise.h"
#include "compute/ops/shape/shape.h"
#include "compute/tensor/dtype.h"

namespace leat::reference {

KernelFactory Unary(float (*f)(float)) {
  return [f](const KernelRequest& request) {
    const auto n = static_cast<size_t>(request.outputs[0].shape.elements());
    return MakeKernel(
        [f, n](const KernelArgs& args) {
          const float* x = In(args, 0);
          float* y = Out(args);
          for (size_t i = 0; i < n; ++i) y[i] = f(x[i]);
        },
        1);
  };
}

KernelFactory Binary(float (*f)(float, float)) {
  return [f](const KernelRequest& request) {
    const Shape& shape = request.outputs[0].shape;
    const auto a_strides = ops::BroadcastStrides(request.inputs[0].shape, shape);
    const auto b_strides = ops::BroadcastStrides(request.inputs[1].shape, shape);
    // An input of the output's shape is read at the written index, so it may be overwritten.
    const bool a_same = request.inputs[0].shape == shape, b_same = request.inputs[1].shape == shape;
    return MakeKernel(
        [=](const KernelArgs& args) {
          const float *a = In(args, 0), *b = In(args, 1);
          float* y = Out(args);
          ForEach(shape,
                  [&](size_t i, const Index& at) { y[i] = f(a[At(at, a_strides)], b[At(at, b_strides)]); });
        },
        a_same ? (b_same ? 2 : 1) : 0);
  };
}

namespace {

std::unique_ptr<graph::Kernel> AddNKernel(const KernelRequest& request) {
  const auto n = static_cast<size_t>(request.outputs[0].shape.elements());
  const auto count = static_cast<int>(request.inputs.size());
  return MakeKernel(
      [n](const KernelArgs& args) {
        float* y = Out(args);
        for (size_t i = 0; i < n; ++i) {
          float sum = 0;
          for (size_t j = 0; j < args.inputs.size(); ++j) sum += In(args, j)[i];
          y[i] = sum;
        }
      },
      count);
}

std::unique_ptr<graph::Kernel> CastKernel(const KernelRequest& request) {
  const auto n = static_cast<size_t>(request.outputs[0].shape.elements());
  return WithType(request.inputs[0].dtype, [&](auto from) {
    return WithType(request.outputs[0].dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      return MakeKernel([n](const KernelArgs& args) {
        const auto* x = reinterpret_cast<const From*>(args.inputs[0]);
        auto* y = reinterpret_cast<To*>(args.outputs[0]);
        for (size_t i = 0; i < n; ++i) y[i] = ConvertTo<To>(x[i]);
      });
    });
  });
}

// f takes two elements of any type and returns a bool.
template <class F>
KernelFactory Compare(F f) {
  return [f](const KernelRequest& request) {
    const Shape& shape = request.outputs[0].shape;
    const auto a_strides = ops::BroadcastStrides(request.inputs[0].shape, shape);
    const auto b_strides = ops::BroadcastStrides(request.inputs[1].shape, shape);
    const DType type = request.inputs[0].dtype;
    return WithType(type == DType::kBf16 ? DType::kF32 : type, [&](auto element) {
      using T = decltype(element);
      return MakeKernel([=](const KernelArgs& args) {
        if constexpr (!std::is_same_v<T, Bf16>) {
          const auto* a = reinterpret_cast<const T*>(args.inputs[0]);
          const auto* b = reinterpret_cast<const T*>(args.inputs[1]);
          auto* y = reinterpret_cast<uint8_t*>(args.outputs[0]);
          ForEach(shape, [&](size_t i, const Index& at) {
            y[i] = f(a[At(at, a_strides)], b[At(at, b_strides)]) ? 1 : 0;
          });
        }
      });
    });
  };
}

// y = f(x), from elements of type X to u8.
template <class X, class F>
KernelFactory Predicate(F f, int in_place) {
  return [=](const KernelRequest& request) {
    const auto n = static_cast<size_t>(request.outputs[0].shape.elements());
    return MakeKernel(
        [=](const KernelArgs& args) {
          const auto* x = reinterpret_cast<const X*>(args.inputs[0]);
          auto* y = reinterpret_cast<uint8_t*>(args.outputs[0]);
          for (size_t i = 0; i < n; ++i) y[i] = f(x[i]) ? 1 : 0;
        },
        in_place);
  };
}

std::unique_ptr<graph::Kernel> WhereKernel(const KernelRequest& request) {
  const Shape& shape = request.outputs[0].shape;
  std::array<std::vector<int64_t>, 3> strides;
  for (size_t i = 0; i < 3; ++i) strides[i] = ops::BroadcastStrides(request.inputs[i].shape, shape);
  return WithType(request.outputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    return MakeKernel([shape, strides](const KernelArgs& args) {
      const auto* condition = reinterpret_cast<const uint8_t*>(args.inputs[0]);
      const auto* a = reinterpret_cast<const T*>(args.inputs[1]);
      const auto* b = reinterpret_cast<const T*>(args.inputs[2]);
      auto* y = reinterpret_cast<T*>(args.outputs[0]);
      ForEach(shape, [&](size_t i, const Index& at) {
        y[i] = condition[At(at, strides[0])] != 0 ? a[At(at, strides[1])] : b[At(at, strides[2])];
      });
    });
  });
}

// Φ(x), the factor of x in gelu, and its derivative.
struct NormalDistribution {
  double phi, slope;
};
NormalDistribution NormalOf(bool approximate, double x) {
  if (!approximate) return {std::erfc(-x * std::sqrt(0.5)) / 2, std::exp(-x * x / 2) / std::sqrt(2 * M_PI)};
  const double c = std::sqrt(2 / M_PI), a = 0.044715;
  const double t = std::tanh(c * (x + a * x * x * x));
  return {(1 + t) / 2, (1 - t * t) / 2 * c * (1 + 3 * a * x * x)};
}

float Gelu(const ops::Gelu& op, float x) {
  // Beyond this Φ is 0 or 1. Return early to avoid 0 · ∞.
  if (x < -40) return 0;
  if (x > 40) return x;
  return static_cast<float>(static_cast<double>(x) * NormalOf(op.approximate, static_cast<double>(x)).phi);
}

float GeluGrad(const ops::GeluGrad& op, float x, float dy) {
  if (x < -40) return 0;
  if (x > 40) return dy;
  const auto [phi, slope] = NormalOf(op.approximate, static_cast<double>(x));
  return static_cast<float>(static_cast<double>(dy) * (phi + static_cast<double>(x) * slope));
}

float Sigmoid(float x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

void AddArithmetic(graph::KernelTable& table) {
  table.Add("abs", Unary([](float x) { return std::abs(x); }));
  table.Add("add", Binary([](float a, float b) { return a + b; }));
  table.Add("add_n", AddNKernel);
  table.Add("cast", CastKernel);
  table.Add("ceil", Unary([](float x) { return std::ceil(x); }));
  table.Add("cos", Unary([](float x) { return std::cos(x); }));
  table.Add("div", Binary([](float a, float b) { return a / b; }));
  table.Add("erf", Unary([](float x) { return std::erf(x); }));
  table.Add("exp", Unary([](float x) { return std::exp(x); }));
  table.Add("expm1", Unary([](float x) { return std::expm1(x); }));
  table.Add("floor", Unary([](float x) { return std::floor(x); }));
  table.Add("log", Unary([](float x) { return std::log(x); }));
  table.Add("log1p", Unary([](float x) { return std::log1p(x); }));
  table.Add("maximum", Binary([](float a, float b) { return a > b || std::isnan(a) ? a : b; }));
  table.Add("minimum", Binary([](float a, float b) { return a < b || std::isnan(a) ? a : b; }));
  table.Add("mul", Binary([](float a, float b) { return a * b; }));
  table.Add("neg", Unary([](float x) { return -x; }));
  table.Add("pow", Binary([](float a, float b) { return std::pow(a, b); }));
  table.Add("power",
            UnaryOf<ops::Power>([](const ops::Power& op, float x) { return std::pow(x, op.exponent); }));
  table.Add("reciprocal", Unary([](float x) { return 1 / x; }));
  table.Add("round", Unary([](float x) { return std::nearbyint(x); }));
  table.Add("rsqrt", Unary([](float x) { return 1 / std::sqrt(x); }));
  table.Add("scale",
            UnaryOf<ops::Scale>([](const ops::Scale& op, float x) { return op.factor * x + op.offset; }));
  table.Add("sign", Unary([](float x) { return static_cast<float>((x > 0) - (x < 0)); }));
  table.Add("sin", Unary([](float x) { return std::sin(x); }));
  table.Add("sqrt", Unary([](float x) { return std::sqrt(x); }));
  table.Add("square", Unary([](float x) { return x * x; }));
  table.Add("sub", Binary([](float a, float b) { return a - b; }));
}

void AddActivations(graph::KernelTable& table) {
  table.Add("clip", UnaryOf<ops::Clip>([](const ops::Clip& op, float x) {
              return x < op.low ? op.low : x > op.high ? op.high : x;
            }));
  table.Add("clip_grad", GradOf<ops::ClipGrad>([](const ops::ClipGrad& op, float x, float dy) {
              return x > op.low && x < op.high ? dy : 0;
            }));
  table.Add("elu", UnaryOf<ops::Elu>(
                       [](const ops::Elu& op, float x) { return x > 0 ? x : op.alpha * std::expm1(x); }));
  table.Add("elu_grad", GradOf<ops::EluGrad>([](const ops::EluGrad& op, float x, float dy) {
              return x > 0 ? dy : op.alpha * std::exp(x) * dy;
            }));
  table.Add("gelu", UnaryOf<ops::Gelu>(Gelu));
  table.Add("gelu_grad", GradOf<ops::GeluGrad>(GeluGrad));
  table.Add("leaky_relu", UnaryOf<ops::LeakyRelu>(
                              [](const ops::LeakyRelu& op, float x) { return x > 0 ? x : op.slope * x; }));
  table.Add("leaky_relu_grad",
            GradOf<ops::LeakyReluGrad>(
                [](const ops::LeakyReluGrad& op, float x, float dy) { return x > 0 ? dy : op.slope * dy; }));
  // max(x, 0), but NaN stays NaN, so that bad data is noticed.
  table.Add("relu", Unary([](float x) { return x < 0 ? 0 : x; }));
  table.Add("relu_grad", Binary([](float y, float dy) { return y > 0 ? dy : 0; }));
  table.Add("sigmoid", Unary(Sigmoid));
  table.Add("sigmoid_grad", Binary([](float y, float dy) { return dy * y * (1 - y); }));
  table.Add("silu", Unary([](float x) { return x * Sigmoid(x); }));
  table.Add("silu_grad", Binary([](float x, float dy) {
              const float s = Sigmoid(x);
              return dy * s * (1 + x * (1 - s));
            }));
  table.Add("softplus",
            Unary([](float x) { return std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x))); }));
  table.Add("tanh", Unary([](float x) { return std::tanh(x); }));
  table.Add("tanh_grad", Binary([](float y, float dy) { return dy * (1 - y * y); }));
}

void AddLogic(graph::KernelTable& table) {
  table.Add("equal", Compare([](auto a, auto b) { return a == b; }));
  table.Add("greater", Compare([](auto a, auto b) { return a > b; }));
  table.Add("greater_equal", Compare([](auto a, auto b) { return a >= b; }));
  table.Add("is_finite", Predicate<float>([](float x) { return std::isfinite(x); }, 0));
  table.Add("less", Compare([](auto a, auto b) { return a < b; }));
  table.Add("less_equal", Compare([](auto a, auto b) { return a <= b; }));
  table.Add("logical_and", Compare([](auto a, auto b) { return a != 0 && b != 0; }));
  table.Add("logical_not", Predicate<uint8_t>([](uint8_t x) { return x == 0; }, 1));
  table.Add("logical_or", Compare([](auto a, auto b) { return a != 0 || b != 0; }));
  table.Add("logical_xor", Compare([](auto a, auto b) { return (a != 0) != (b != 0); }));
  table.Add("not_equal", Compare([](auto a, auto b) { return a != b; }));
  table.Add("where", WhereKernel);
}

}  // namespace

void AddElementwise(graph::KernelTable& table) {
  AddArithmetic(table);
  AddActivations(table);
  AddLogic(table);
}

}  // namespace leat::reference
