#include <algorithm>
#include <cstring>

#include "base/multiversion.h"
#include "compute/kernels/cpu/inline.h"
#include "compute/kernels/cpu/kernels.h"
#include "compute/ops/index/index.h"
#include "compute/ops/shape/shape.h"

namespace leat::cpu {
namespace {

// Gathers rows of `bytes` bytes from each of `outer` tables of `size` rows.
template <class I>
void GatherRows(const std::byte* table, const I* indices, std::byte* y, const ops::AxisView& view,
                size_t count, size_t bytes) {
  for (int64_t o = 0; o < view.outer; ++o, table += static_cast<size_t>(view.size) * bytes) {
    for (size_t k = 0; k < count; ++k, y += bytes) {
      const int64_t at = ops::PlaceOf(indices[k], view.size);
      if (at < 0) {
        std::memset(y, 0, bytes);
      } else {
        std::memcpy(y, table + static_cast<size_t>(at) * bytes, bytes);
      }
    }
  }
}

template <class I>
LEAT_INLINE void AddRows(const float* x, const I* indices, float* table, const ops::AxisView& view,
                         size_t count) {
  const auto n = static_cast<size_t>(view.inner), size = static_cast<size_t>(view.size);
  for (int64_t o = 0; o < view.outer; ++o, table += size * n) {
    std::fill_n(table, size * n, 0.0f);
    for (size_t k = 0; k < count; ++k, x += n) {
      const int64_t at = ops::PlaceOf(indices[k], view.size);
      if (at < 0) continue;
      float* row = table + static_cast<size_t>(at) * n;
#pragma GCC ivdep
      for (size_t i = 0; i < n; ++i) row[i] += x[i];
    }
  }
}

LEAT_MULTIVERSION
void AddRows32(const float* x, const int32_t* indices, float* table, const ops::AxisView& view,
               size_t count) {
  AddRows(x, indices, table, view, count);
}

LEAT_MULTIVERSION
void AddRows64(const float* x, const int64_t* indices, float* table, const ops::AxisView& view,
               size_t count) {
  AddRows(x, indices, table, view, count);
}

KernelPtr MakeGather(const KernelRequest& request) {
  const Shape& x = request.inputs[0].shape;
  const auto view =
      ops::ViewAlong(x, ops::AxisOf(static_cast<const ops::Gather&>(request.op).axis, x.rank()));
  const size_t count = Elements(request.inputs[1]);
  const size_t bytes = static_cast<size_t>(view.inner) * SizeOf(request.inputs[0].dtype);
  const bool narrow = request.inputs[1].dtype == DType::kI32;
  return Loop([=](const KernelArgs& args) {
    const std::byte* indices = args.inputs[1];
    if (narrow) {
      GatherRows(args.inputs[0], reinterpret_cast<const int32_t*>(indices), args.outputs[0], view, count,
                 bytes);
    } else {
      GatherRows(args.inputs[0], reinterpret_cast<const int64_t*>(indices), args.outputs[0], view, count,
                 bytes);
    }
  });
}

KernelPtr MakeScatterAdd(const KernelRequest& request) {
  const auto& op = static_cast<const ops::ScatterAdd&>(request.op);
  const auto view = ops::ViewAlong(op.shape, ops::AxisOf(op.axis, op.shape.rank()));
  const size_t count = Elements(request.inputs[1]);
  if (request.inputs[1].dtype == DType::kI32) {
    return Loop([=](const KernelArgs& args) {
      AddRows32(In(args, 0), reinterpret_cast<const int32_t*>(args.inputs[1]), Out(args, 0), view, count);
    });
  }
  return Loop([=](const KernelArgs& args) {
    AddRows64(In(args, 0), reinterpret_cast<const int64_t*>(args.inputs[1]), Out(args, 0), view, count);
  });
}

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

void AddIndex(graph::KernelTable& table) {
  table.Add("embedding", MakeEmbedding);
  table.Add("embedding_grad", MakeEmbeddingGrad);
  table.Add("gather", MakeGather);
  table.Add("scatter_add", MakeScatterAdd);
}

}  // namespace leat::cpu
