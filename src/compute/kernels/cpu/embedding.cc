#include <algorithm>
#include <cstring>

#include "base/multiversion.h"
#include "compute/kernels/cpu/kernels.h"
#include "compute/ops/index/index.h"

namespace leat::cpu {
namespace {

struct Lookup {
  size_t rows, width, count;
};

void LookUp(const float* table, const int32_t* ids, float* y, const Lookup& sizes) {
  const size_t width = sizes.width;
  for (size_t i = 0; i < sizes.count; ++i, y += width) {
    if (ids[i] >= 0 && static_cast<size_t>(ids[i]) < sizes.rows) {
      std::memcpy(y, table + static_cast<size_t>(ids[i]) * width, width * sizeof(float));
    } else {
      std::fill(y, y + width, 0.0f);
    }
  }
}

LEAT_MULTIVERSION
void SumGatheredRows(const int32_t* ids, const float* dy, float* table, const Lookup& sizes) {
  const size_t width = sizes.width;
  std::fill(table, table + sizes.rows * width, 0.0f);
  for (size_t i = 0; i < sizes.count; ++i, dy += width) {
    if (ids[i] < 0 || static_cast<size_t>(ids[i]) >= sizes.rows) continue;
    float* row = table + static_cast<size_t>(ids[i]) * width;
#pragma GCC ivdep
    for (size_t j = 0; j < width; ++j) row[j] += dy[j];
  }
}

KernelPtr MakeEmbedding(const KernelRequest& request) {
  const Lookup sizes = {static_cast<size_t>(request.inputs[0].shape[0]),
                        static_cast<size_t>(request.inputs[0].shape[1]), Elements(request.inputs[1])};
  return Loop([=](const KernelArgs& args) {
    LookUp(In(args, 0), reinterpret_cast<const int32_t*>(args.inputs[1]), Out(args, 0), sizes);
  });
}

KernelPtr MakeEmbeddingGrad(const KernelRequest& request) {
  const Lookup sizes = {static_cast<size_t>(request.outputs[0].shape[0]),
                        static_cast<size_t>(request.outputs[0].shape[1]), Elements(request.inputs[0])};
  return Loop([=](const KernelArgs& args) {
    SumGatheredRows(reinterpret_cast<const int32_t*>(args.inputs[0]), In(args, 1), Out(args, 0), sizes);
  });
}

}  // namespace

void AddEmbedding(graph::KernelTable& table) {
  table.Add("embedding", MakeEmbedding);
  table.Add("embedding_grad", MakeEmbeddingGrad);
}

}  // namespace leat::cpu
