#include <algorithm>
#include <vector>

#include "kernels/reference/kernels.h"
#include "kernels/reference/walk.h"
#include "ops/shape/broadcast.h"
#include "ops/shape/concat.h"
#include "ops/shape/reduce.h"
#include "ops/shape/slice.h"
#include "ops/shape/transpose.h"

namespace leat::reference {
namespace {

std::vector<int64_t> RowMajor(const Shape& shape) {
  return ops::BroadcastStrides(shape, shape);
}

// y[j] = factor · the sum of the x that fall on j, each sum in double precision. `to` are the strides by
// which an index of x finds its place in y; the sums live in the scratch memory.
class SumKernel final : public graph::Kernel {
 public:
  SumKernel(const Shape& from, const Shape& to, std::vector<int64_t> strides, double factor)
      : from_(from),
        strides_(std::move(strides)),
        count_(static_cast<size_t>(to.elements())),
        factor_(factor) {}

  size_t scratch_bytes() const override { return count_ * sizeof(double); }

  void Run(const KernelArgs& args) override {
    const float* x = In(args, 0);
    float* y = Out(args);
    auto* sums = reinterpret_cast<double*>(args.scratch);
    std::fill_n(sums, count_, 0.0);
    ForEach(from_, [&](size_t i, const Index& at) { sums[At(at, strides_)] += static_cast<double>(x[i]); });
    for (size_t j = 0; j < count_; ++j) y[j] = static_cast<float>(sums[j] * factor_);
  }

 private:
  const Shape from_;
  const std::vector<int64_t> strides_;
  const size_t count_;
  const double factor_;
};

std::unique_ptr<graph::Kernel> Reduce(const KernelRequest& request, bool mean) {
  const auto& op = static_cast<const ops::ReduceOp&>(request.op);
  const Shape& from = request.inputs[0].shape;
  const Shape kept = op.KeptShape(from);
  const double factor =
      mean ? static_cast<double>(kept.elements()) / static_cast<double>(from.elements()) : 1.0;
  return std::make_unique<SumKernel>(from, kept, ops::BroadcastStrides(kept, from), factor);
}

// y[i] = x[offset + strides · index of i]
std::unique_ptr<graph::Kernel> Gather(const Shape& shape, std::vector<int64_t> strides, int64_t offset = 0) {
  return MakeKernel([shape, strides = std::move(strides), offset](const KernelArgs& args) {
    const float* x = In(args, 0) + offset;
    float* y = Out(args);
    ForEach(shape, [&](size_t i, const Index& at) { y[i] = x[At(at, strides)]; });
  });
}

// Offset of the element at `index` in a tensor of that shape.
int64_t OffsetOf(const Shape& shape, std::span<const int64_t> index) {
  const std::vector<int64_t> strides = RowMajor(shape);
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i) offset += index[i] * strides[i];
  return offset;
}

}  // namespace

std::unique_ptr<graph::Kernel> BroadcastToKernel(const KernelRequest& request) {
  const Shape& shape = request.outputs[0].shape;
  return Gather(shape, ops::BroadcastStrides(request.inputs[0].shape, shape));
}

std::unique_ptr<graph::Kernel> SumToKernel(const KernelRequest& request) {
  const Shape &from = request.inputs[0].shape, &to = request.outputs[0].shape;
  return std::make_unique<SumKernel>(from, to, ops::BroadcastStrides(to, from), 1.0);
}

std::unique_ptr<graph::Kernel> ReduceSumKernel(const KernelRequest& request) {
  return Reduce(request, false);
}

std::unique_ptr<graph::Kernel> ReduceMeanKernel(const KernelRequest& request) {
  return Reduce(request, true);
}

std::unique_ptr<graph::Kernel> TransposeKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::Transpose&>(request.op);
  const std::vector<int64_t> strides = RowMajor(request.inputs[0].shape);
  std::vector<int64_t> permuted;
  for (int axis : op.permutation) permuted.push_back(strides[static_cast<size_t>(axis)]);
  return Gather(request.outputs[0].shape, std::move(permuted));
}

std::unique_ptr<graph::Kernel> ConcatKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::Concat&>(request.op);
  const Shape& shape = request.outputs[0].shape;
  const auto axis = static_cast<size_t>(op.axis < 0 ? op.axis + static_cast<int>(shape.rank()) : op.axis);
  const std::vector<int64_t> strides = RowMajor(shape);
  std::vector<std::pair<Shape, int64_t>> parts;  // shape, offset of its first element in the output
  int64_t begin = 0;
  for (const TensorType& type : request.inputs) {
    parts.emplace_back(type.shape, begin * strides[axis]);
    begin += type.shape[axis];
  }
  return MakeKernel([parts, strides](const KernelArgs& args) {
    for (size_t p = 0; p < parts.size(); ++p) {
      const float* x = In(args, p);
      float* y = Out(args) + parts[p].second;
      ForEach(parts[p].first, [&](size_t i, const Index& at) { y[At(at, strides)] = x[i]; });
    }
  });
}

std::unique_ptr<graph::Kernel> SliceKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::Slice&>(request.op);
  const Shape& from = request.inputs[0].shape;
  return Gather(request.outputs[0].shape, RowMajor(from), OffsetOf(from, op.begin));
}

std::unique_ptr<graph::Kernel> PadKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::Pad&>(request.op);
  const Shape &from = request.inputs[0].shape, &to = request.outputs[0].shape;
  return MakeKernel([from, n = static_cast<size_t>(to.elements()), strides = RowMajor(to),
                     offset = OffsetOf(to, op.before)](const KernelArgs& args) {
    const float* x = In(args, 0);
    float* y = Out(args);
    std::fill_n(y, n, 0.0f);
    ForEach(from,
            [&](size_t i, const Index& at) { y[static_cast<size_t>(offset) + At(at, strides)] = x[i]; });
  });
}

}  // namespace leat::reference
