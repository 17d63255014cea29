// Shared parts of the reference kernels, and the function of each family that reference.cc calls.
#pragma once

#include <utility>

#include "compute/graph/kernel.h"
#include "compute/ops/matrix/matrix.h"

namespace leat::reference {

using graph::KernelArgs;
using graph::KernelFactory;
using graph::KernelRequest;

// A kernel implemented by a function.
template <class F>
class FunctionKernel final : public graph::Kernel {
 public:
  // Output 0 may overwrite each of the first `in_place` inputs.
  FunctionKernel(F f, int in_place) : f_(std::move(f)), in_place_(in_place) {}
  void Run(const KernelArgs& args) override { f_(args); }
  int OutputInPlaceOf(int input) const override { return input < in_place_ ? 0 : -1; }

 private:
  F f_;
  int in_place_;
};

template <class F>
std::unique_ptr<graph::Kernel> MakeKernel(F f, int in_place = 0) {
  return std::make_unique<FunctionKernel<F>>(std::move(f), in_place);
}

// A kernel implemented by a function, with scratch memory.
template <class F>
class ScratchKernel final : public graph::Kernel {
 public:
  ScratchKernel(size_t bytes, F f) : bytes_(bytes), f_(std::move(f)) {}
  void Run(const KernelArgs& args) override { f_(args); }
  size_t scratch_bytes() const override { return bytes_; }

 private:
  size_t bytes_;
  F f_;
};

template <class F>
std::unique_ptr<graph::Kernel> MakeScratchKernel(size_t bytes, F f) {
  return std::make_unique<ScratchKernel<F>>(bytes, std::move(f));
}

inline const float* In(const KernelArgs& args, size_t i) {
  return reinterpret_cast<const float*>(args.inputs[i]);
}
inline float* Out(const KernelArgs& args, size_t i = 0) {
  return reinterpret_cast<float*>(args.outputs[i]);
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
void AddEmbedding(graph::KernelTable& table);
void AddRecurrent(graph::KernelTable& table);
void AddAttention(graph::KernelTable& table);

// bf16 matrix products and convolutions through the f32 loops.

// Wraps an f32 factory to accept bf16 inputs, which the kernel converts to f32 in scratch memory.
KernelFactory Widened(std::unique_ptr<graph::Kernel> (*make)(const KernelRequest&));

}  // namespace leat::reference
