// What the kernels of this folder share, and the factories that table.cc lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "graph/kernel.h"

namespace leat::onednn {

using graph::KernelArgs;
using graph::KernelRequest;
using KernelPtr = std::unique_ptr<graph::Kernel>;

inline const float* In(const KernelArgs& args, size_t i) {
  return reinterpret_cast<const float*>(args.inputs[i]);
}
inline float* Out(const KernelArgs& args, size_t i) {
  return reinterpret_cast<float*>(args.outputs[i]);
}
inline size_t Elements(const TensorType& type) {
  return static_cast<size_t>(type.shape.elements());
}

// A kernel that is one call. `in_place[i]` is the output that may lie in the memory of input i.
template <class F>
class LoopKernel final : public graph::Kernel {
 public:
  LoopKernel(F run, std::vector<int> in_place) : run_(std::move(run)), in_place_(std::move(in_place)) {}
  void Run(const KernelArgs& args) override { run_(args); }
  int OutputInPlaceOf(int input) const override {
    const auto i = static_cast<size_t>(input);
    return i < in_place_.size() ? in_place_[i] : -1;
  }

 private:
  F run_;
  std::vector<int> in_place_;
};

template <class F>
KernelPtr Loop(F run, std::vector<int> in_place = {}) {
  return std::make_unique<LoopKernel<F>>(std::move(run), std::move(in_place));
}

// Neighbouring axes that behave alike, as one. `moves` has a bit for each tensor that has the axis; a tensor
// without it is stretched, or summed, along it.
struct AxisGroup {
  size_t size;
  unsigned moves;
};
// The axes of `sizes` as few groups as possible; axes of size 1 vanish.
std::vector<AxisGroup> Collapse(std::span<const int64_t> sizes, std::span<const unsigned> moves);

// Each returns nullptr for a case that it leaves to the next table.
KernelPtr MakeMatMul(const KernelRequest& request);
KernelPtr MakeBatchMatMul(const KernelRequest& request);
KernelPtr MakeDense(const KernelRequest& request);

KernelPtr MakeAddN(const KernelRequest& request);
KernelPtr MakeScale(const KernelRequest& request);

KernelPtr MakeReduceSum(const KernelRequest& request);
KernelPtr MakeReduceMean(const KernelRequest& request);
KernelPtr MakeSumTo(const KernelRequest& request);

KernelPtr MakeSoftmax(const KernelRequest& request);
KernelPtr MakeSoftmaxGrad(const KernelRequest& request);
KernelPtr MakeLogSoftmax(const KernelRequest& request);
KernelPtr MakeSoftmaxCrossEntropy(const KernelRequest& request);
KernelPtr MakeSoftmaxCrossEntropyGrad(const KernelRequest& request);

KernelPtr MakeBroadcastTo(const KernelRequest& request);
KernelPtr MakeCast(const KernelRequest& request);
KernelPtr MakeTranspose(const KernelRequest& request);

// Each adds the rows of a family.
void AddElementwise(graph::KernelTable& table);
void AddMove(graph::KernelTable& table);
void AddReduce(graph::KernelTable& table);
void AddIndex(graph::KernelTable& table);
void AddConvolution(graph::KernelTable& table);
void AddPool(graph::KernelTable& table);
void AddNormalize(graph::KernelTable& table);
void AddEmbedding(graph::KernelTable& table);
void AddRecurrent(graph::KernelTable& table);
void AddAttention(graph::KernelTable& table);

}  // namespace leat::onednn
