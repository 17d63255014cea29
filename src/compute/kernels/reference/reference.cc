#include "compute/kernels/reference/reference.h"

#include <algorithm>
#include <vector>

#include "compute/kernels/reference/kernels.h"

namespace leat::reference {
namespace {

class WidenedKernel final : public graph::Kernel {
 public:
  WidenedKernel(std::unique_ptr<graph::Kernel> kernel, std::span<const TensorType> inputs)
      : kernel_(std::move(kernel)), pointers_(inputs.size()) {
    for (const TensorType& type : inputs) {
      const auto n = static_cast<size_t>(type.shape.elements());
      narrow_.push_back(type.dtype == DType::kBf16 ? n : 0);
      floats_ += narrow_.back();
    }
  }

  size_t scratch_bytes() const override { return OwnBytes() + kernel_->scratch_bytes(); }

  void Run(const KernelArgs& args) override {
    auto* to = reinterpret_cast<float*>(args.scratch);
    for (size_t i = 0; i < pointers_.size(); ++i) {
      pointers_[i] = args.inputs[i];
      if (narrow_[i] == 0) continue;
      const auto* from = reinterpret_cast<const Bf16*>(args.inputs[i]);
      std::transform(from, from + narrow_[i], to, ToFloat);
      pointers_[i] = reinterpret_cast<const std::byte*>(to);
      to += narrow_[i];
    }
    kernel_->Run({pointers_, args.outputs, args.scratch + OwnBytes()});
  }

 private:
  size_t OwnBytes() const {
    return (floats_ * sizeof(float) + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
  }

  std::unique_ptr<graph::Kernel> kernel_;
  std::vector<const std::byte*> pointers_;
  std::vector<size_t> narrow_;  // elements of an input that is bf16
  size_t floats_ = 0;
};

graph::KernelTable Build() {
  graph::KernelTable table;
  table.backend = "reference";
  AddElementwise(table);
  AddShape(table);
  AddMatrix(table);
  AddLoss(table);
  AddIndex(table);
  AddConvolution(table);
  AddPool(table);
  AddNormalize(table);
  AddRecurrent(table);
  AddAttention(table);
  return table;
}

}  // namespace

KernelFactory Widened(std::unique_ptr<graph::Kernel> (*make)(const KernelRequest&)) {
  return [make](const KernelRequest& request) -> std::unique_ptr<graph::Kernel> {
    const auto is_narrow = [](const TensorType& type) { return type.dtype == DType::kBf16; };
    if (std::ranges::none_of(request.inputs, is_narrow)) return make(request);
    std::vector<TensorType> wide(request.inputs.begin(), request.inputs.end());
    for (TensorType& type : wide) type.dtype = DType::kF32;
    auto kernel = make({request.op, wide, request.outputs, request.intra_op_threads});
    return kernel == nullptr ? nullptr : std::make_unique<WidenedKernel>(std::move(kernel), request.inputs);
  };
}

const graph::KernelTable& Kernels() {
  static const graph::KernelTable table = Build();
  return table;
}

}  // namespace leat::reference
