#include "kernels/reference/kernels.h"
#include "kernels/reference/walk.h"
#include "ops/broadcast.h"
#include "ops/scale.h"

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

template <class T>
std::unique_ptr<graph::Kernel> CastFrom(size_t n) {
  return MakeKernel([n](const KernelArgs& args) {
    const auto* x = reinterpret_cast<const T*>(args.inputs[0]);
    float* y = Out(args);
    for (size_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[i]);
  });
}

}  // namespace

std::unique_ptr<graph::Kernel> CastKernel(const KernelRequest& request) {
  const auto n = static_cast<size_t>(request.outputs[0].shape.elements());
  switch (request.inputs[0].dtype) {
    case DType::kU8:
      return CastFrom<uint8_t>(n);
    case DType::kI32:
      return CastFrom<int32_t>(n);
    case DType::kI64:
      return CastFrom<int64_t>(n);
    case DType::kF32:
      break;
  }
  return nullptr;
}

}  // namespace leat::reference
