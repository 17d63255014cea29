// Shared parts of the CPU kernels, and the function of each family that table.cc calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "compute/graph/kernel.h"

namespace leat::cpu {

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

// A kernel implemented by a function. `in_place[i]` is the output that may overwrite input i.
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

// Merging the axes of a loop over several tensors.

// Adjacent axes merged into one. `moves` has a bit for each tensor that has the axis; the others are
// broadcast, or summed, along it.
struct AxisGroup {
  size_t size;
  unsigned moves;
};
// Merges the axes of `sizes` into as few groups as possible and drops axes of size 1.
std::vector<AxisGroup> Collapse(std::span<const int64_t> sizes, std::span<const unsigned> moves);

// Whether the processor has bf16 dot-product instructions (onednn/primitive.cc).
bool HasBf16();

// Each adds the kernels of a family of ops to the table. A factory returns nullptr for a case that it does
// not support.
void AddMatMul(graph::KernelTable& table);
void AddElementwise(graph::KernelTable& table);
void AddMove(graph::KernelTable& table);
void AddReduce(graph::KernelTable& table);
void AddSoftmax(graph::KernelTable& table);
void AddIndex(graph::KernelTable& table);
void AddConvolution(graph::KernelTable& table);
void AddPool(graph::KernelTable& table);
void AddNormalize(graph::KernelTable& table);
void AddLstm(graph::KernelTable& table);
void AddGru(graph::KernelTable& table);
void AddRnn(graph::KernelTable& table);
void AddAttention(graph::KernelTable& table);

}  // namespace leat::cpu
