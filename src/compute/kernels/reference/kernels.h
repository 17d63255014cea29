// Shared parts of the reference kernels, and the function of each family that reference.cc calls.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "compute/graph/kernel.h"
#include "compute/ops/matrix/matrix.h"
#include "compute/tensor/dtype.h"

namespace leat::reference {

using graph::KernelArgs;
using graph::KernelFactory;
using graph::KernelRequest;

// A kernel implemented by a function.
template <class F>
class FunctionKernel final : public graph::Kernel {
 public:
  // Output 0 may overwrite each of the first `in_place` inputs.
  FunctionKernel(F f, int in_place, size_t scratch_bytes)
      : f_(std::move(f)), in_place_(in_place), scratch_bytes_(scratch_bytes) {}
  void Run(const KernelArgs& args) override { f_(args); }
  size_t scratch_bytes() const override { return scratch_bytes_; }
  int OutputInPlaceOf(int input) const override { return input < in_place_ ? 0 : -1; }

 private:
  F f_;
  int in_place_;
  size_t scratch_bytes_;
};

template <class F>
std::unique_ptr<graph::Kernel> MakeKernel(F f, int in_place = 0) {
  return std::make_unique<FunctionKernel<F>>(std::move(f), in_place, 0);
}

// The same with scratch memory.
template <class F>
std::unique_ptr<graph::Kernel> MakeScratchKernel(size_t bytes, F f) {
  return std::make_unique<FunctionKernel<F>>(std::move(f), 0, bytes);
}

// A kernel implemented by f(args, sums), with `count` sums in double precision, which are 0 at first.
template <class F>
std::unique_ptr<graph::Kernel> MakeSums(int64_t count, F f) {
  const auto n = static_cast<size_t>(count);
  return MakeScratchKernel(n * sizeof(double), [n, f = std::move(f)](const KernelArgs& args) {
    auto* sums = reinterpret_cast<double*>(args.scratch);
    std::fill_n(sums, n, 0.0);
    f(args, sums);
  });
}

inline const float* In(const KernelArgs& args, size_t i) {
  return reinterpret_cast<const float*>(args.inputs[i]);
}
inline float* Out(const KernelArgs& args, size_t i = 0) {
  return reinterpret_cast<float*>(args.outputs[i]);
}

// Loops over the elements of a tensor of any type.

// Dispatch on element types, for kernels that are one loop for any type.

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

// Calls f with a value of the index type, int32_t or int64_t.
template <class F>
auto WithIndexType(DType type, F f) {
  return type == DType::kI32 ? f(int32_t{}) : f(int64_t{});
}

// Iteration over all elements of a tensor with their indices, last axis fastest.

using Index = std::array<int64_t, Shape::kMaxRank>;

// f(position in row-major order, index along each axis)
template <class F>
void ForEach(const Shape& shape, F f) {
  Index at{};
  const auto n = static_cast<size_t>(shape.elements());
  for (size_t i = 0; i < n; ++i) {
    f(i, at);
    for (size_t axis = shape.rank(); axis-- > 0;) {
      if (++at[axis] < shape[axis]) break;
      at[axis] = 0;
    }
  }
}

inline size_t At(const Index& at, std::span<const int64_t> strides) {
  int64_t sum = 0;
  for (size_t i = 0; i < strides.size(); ++i) sum += at[i] * strides[i];
  return static_cast<size_t>(sum);
}

// y = f(op, x) or f(op, x, dy), for ops with attributes.
template <class Operation, class F>
KernelFactory UnaryOf(F f) {
  return [f](const KernelRequest& request) {
    const auto n = static_cast<size_t>(request.outputs[0].shape.elements());
    return MakeKernel(
        [f, n, op = static_cast<const Operation*>(&request.op)](const KernelArgs& args) {
          const float* x = In(args, 0);
          float* y = Out(args);
          for (size_t i = 0; i < n; ++i) y[i] = f(*op, x[i]);
        },
        1);
  };
}

template <class Operation, class F>
KernelFactory GradOf(F f) {
  return [f](const KernelRequest& request) {
    const auto n = static_cast<size_t>(request.outputs[0].shape.elements());
    return MakeKernel(
        [f, n, op = static_cast<const Operation*>(&request.op)](const KernelArgs& args) {
          const float *x = In(args, 0), *dy = In(args, 1);
          float* dx = Out(args);
          for (size_t i = 0; i < n; ++i) dx[i] = f(*op, x[i], dy[i]);
        },
        2);
  };
}

// elementwise.cc
KernelFactory Unary(float (*f)(float));
KernelFactory Binary(float (*f)(float, float));  // with broadcasting

// matrix.cc
double Activate(ops::Activation activation, double x);

// Each adds the kernels of a family of ops to the table.
void AddElementwise(graph::KernelTable& table);
void AddShape(graph::KernelTable& table);
void AddMatrix(graph::KernelTable& table);
void AddLoss(graph::KernelTable& table);
void AddIndex(graph::KernelTable& table);
void AddConvolution(graph::KernelTable& table);
void AddPool(graph::KernelTable& table);
void AddNormalize(graph::KernelTable& table);
void AddRecurrent(graph::KernelTable& table);
void AddAttention(graph::KernelTable& table);

// bf16 matrix products and convolutions through the f32 loops.

// Wraps an f32 factory to accept bf16 inputs, which the kernel converts to f32 in scratch memory.
KernelFactory Widened(std::unique_ptr<graph::Kernel> (*make)(const KernelRequest&));

}  // namespace leat::reference
