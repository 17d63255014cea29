#include "kernels/reference/kernels.h"
#include "kernels/reference/walk.h"
#include "ops/elementwise/scale.h"
#include "ops/shape/broadcast.h"
#include "tensor/convert.h"

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
    // An input of the output's shape is read at the index that is written.
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

std::unique_ptr<graph::Kernel> ScaleKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::Scale&>(request.op);
  const auto n = static_cast<size_t>(request.outputs[0].shape.elements());
  return MakeKernel(
      [n, factor = op.factor, offset = op.offset](const KernelArgs& args) {
        const float* x = In(args, 0);
        float* y = Out(args);
        for (size_t i = 0; i < n; ++i) y[i] = factor * x[i] + offset;
      },
      1);
}

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

namespace {

// Calls f with a value of the C++ type of `type`.
template <class F>
auto WithType(DType type, F f) {
  switch (type) {
    case DType::kU8:
      return f(uint8_t{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kBf16:
      return f(Bf16{});
    case DType::kF32:
      break;
  }
  return f(float{});
}

}  // namespace

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

}  // namespace leat::reference
