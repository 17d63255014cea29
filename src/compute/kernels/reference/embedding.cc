#include <algorithm>

#include "compute/kernels/reference/kernels.h"
#include "compute/ops/index/index.h"

namespace leat::reference {
namespace {

const int32_t* Ids(const KernelArgs& args, size_t input) {
  return reinterpret_cast<const int32_t*>(args.inputs[input]);
}

std::unique_ptr<graph::Kernel> EmbeddingKernel(const KernelRequest& request) {
  const int64_t rows = request.inputs[0].shape[0], width = request.inputs[0].shape[1];
  const int64_t count = request.inputs[1].shape.elements();
  return MakeKernel([=](const KernelArgs& args) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t id = Ids(args, 1)[i];
      const bool there = id >= 0 && id < rows;
      for (int64_t j = 0; j < width; ++j) {
        Out(args)[i * width + j] = there ? In(args, 0)[id * width + j] : 0.0f;
      }
    }
  });
}

std::unique_ptr<graph::Kernel> EmbeddingGradKernel(const KernelRequest& request) {
  const int64_t rows = request.outputs[0].shape[0], width = request.outputs[0].shape[1];
  const int64_t count = request.inputs[0].shape.elements();
  return MakeKernel([=](const KernelArgs& args) {
    std::fill(Out(args), Out(args) + rows * width, 0.0f);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t id = Ids(args, 0)[i];
      if (id < 0 || id >= rows) continue;
      for (int64_t j = 0; j < width; ++j) Out(args)[id * width + j] += In(args, 1)[i * width + j];
    }
  });
}

}  // namespace

void AddEmbedding(graph::KernelTable& table) {
  table.Add("embedding", EmbeddingKernel);
  table.Add("embedding_grad", EmbeddingGradKernel);
}

}  // namespace leat::reference
