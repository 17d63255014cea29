// The folder's factories, one for each op or family of ops that share a loop.
#pragma once

#include <utility>

#include "graph/kernel.h"
#include "ops/matrix/dense.h"

namespace leat::reference {

using graph::KernelArgs;
using graph::KernelFactory;
using graph::KernelRequest;

// A kernel that is one function of its arguments.
template <class F>
class FunctionKernel final : public graph::Kernel {
 public:
  // in_place: the inputs from 0 on whose memory output 0 may take.
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

// The same with scratch memory.
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
std::unique_ptr<graph::Kernel> ScaleKernel(const KernelRequest& request);
std::unique_ptr<graph::Kernel> AddNKernel(const KernelRequest& request);
std::unique_ptr<graph::Kernel> CastKernel(const KernelRequest& request);

// matrix.cc
double Activate(ops::Activation activation, double x);
std::unique_ptr<graph::Kernel> MatMulKernel(const KernelRequest& request);
std::unique_ptr<graph::Kernel> BatchMatMulKernel(const KernelRequest& request);
std::unique_ptr<graph::Kernel> BiasAddKernel(const KernelRequest& request);
std::unique_ptr<graph::Kernel> DenseKernel(const KernelRequest& request);

// shape.cc
std::unique_ptr<graph::Kernel> BroadcastToKernel(const KernelRequest& request);
std::unique_ptr<graph::Kernel> SumToKernel(const KernelRequest& request);
std::unique_ptr<graph::Kernel> ReduceSumKernel(const KernelRequest& request);
std::unique_ptr<graph::Kernel> ReduceMeanKernel(const KernelRequest& request);
std::unique_ptr<graph::Kernel> TransposeKernel(const KernelRequest& request);
std::unique_ptr<graph::Kernel> ConcatKernel(const KernelRequest& request);
std::unique_ptr<graph::Kernel> SliceKernel(const KernelRequest& request);
std::unique_ptr<graph::Kernel> PadKernel(const KernelRequest& request);

// loss.cc
std::unique_ptr<graph::Kernel> SoftmaxKernel(const KernelRequest& request);
std::unique_ptr<graph::Kernel> SoftmaxGradKernel(const KernelRequest& request);
std::unique_ptr<graph::Kernel> LogSoftmaxKernel(const KernelRequest& request);
std::unique_ptr<graph::Kernel> SoftmaxCrossEntropyKernel(const KernelRequest& request);
std::unique_ptr<graph::Kernel> SoftmaxCrossEntropyGradKernel(const KernelRequest& request);

// Each adds the rows of a family.
void AddElementwise(graph::KernelTable& table);
void AddShape(graph::KernelTable& table);
void AddLoss(graph::KernelTable& table);
void AddIndex(graph::KernelTable& table);
void AddConvolution(graph::KernelTable& table);
void AddPool(graph::KernelTable& table);
void AddNormalize(graph::KernelTable& table);
void AddEmbedding(graph::KernelTable& table);
void AddRecurrent(graph::KernelTable& table);
void AddAttention(graph::KernelTable& table);

}  // namespace leat::reference
