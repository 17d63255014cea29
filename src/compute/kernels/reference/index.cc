#include <algorithm>

#include "compute/kernels/reference/kernels.h"
#include "compute/ops/index/index.h"
#include "compute/ops/shape/shape.h"

namespace leat::reference {
namespace {

// y[o, k, i] = x[o, indices[k], i], for any type, viewed along the axis.
std::unique_ptr<graph::Kernel> GatherKernel(const KernelRequest& request) {
  const Shape& shape = request.inputs[0].shape;
  const auto& op = static_cast<const ops::Gather&>(request.op);
  const ops::AxisView x = ops::ViewAlong(shape, ops::AxisOf(op.axis, shape.rank()));
  const int64_t count = request.inputs[1].shape.elements();
  return WithType(request.inputs[0].dtype, [&](auto element) {
    return WithIndexType(request.inputs[1].dtype, [&](auto index) {
      using T = decltype(element);
      using I = decltype(index);
      return MakeKernel([x, count](const KernelArgs& args) {
        const auto* table = reinterpret_cast<const T*>(args.inputs[0]);
        const auto* indices = reinterpret_cast<const I*>(args.inputs[1]);
        auto* y = reinterpret_cast<T*>(args.outputs[0]);
        for (int64_t o = 0; o < x.outer; ++o) {
          for (int64_t k = 0; k < count; ++k) {
            const int64_t at = ops::PlaceOf(indices[k], x.size);
            for (int64_t i = 0; i < x.inner; ++i) {
              *y++ = at < 0 ? T{} : table[(o * x.size + at) * x.inner + i];
            }
          }
        }
      });
    });
  });
}

std::unique_ptr<graph::Kernel> ScatterAddKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::ScatterAdd&>(request.op);
  const ops::AxisView y = ops::ViewAlong(op.shape, ops::AxisOf(op.axis, op.shape.rank()));
  const int64_t count = request.inputs[1].shape.elements();
  return WithIndexType(request.inputs[1].dtype, [&](auto index) {
    using I = decltype(index);
    return MakeKernel([y, count](const KernelArgs& args) {
      const float* x = In(args, 0);
      const auto* indices = reinterpret_cast<const I*>(args.inputs[1]);
      float* table = Out(args);
      std::fill_n(table, y.outer * y.size * y.inner, 0.0f);
      for (int64_t o = 0; o < y.outer; ++o) {
        for (int64_t k = 0; k < count; ++k, x += y.inner) {
          const int64_t at = ops::PlaceOf(indices[k], y.size);
          if (at < 0) continue;
          for (int64_t i = 0; i < y.inner; ++i) table[(o * y.size + at) * y.inner + i] += x[i];
        }
      }
    });
  });
}

// Maps positions in the indices to positions in a tensor of `shape`.
struct Places {
  Places(const Shape& shape, const Shape& i, int a)
      : indices(i), strides(ops::BroadcastStrides(shape, shape)), axis(ops::AxisOf(a, shape.rank())) {
    size = shape[axis];
    step = ops::ViewAlong(shape, axis).inner;
    strides[axis] = 0;
  }
  // The position for the element at `at` with this index along the axis, -1 if it is out of range.
  int64_t Of(const Index& at, int64_t index) const {
    const int64_t place = ops::PlaceOf(index, size);
    return place < 0 ? -1 : static_cast<int64_t>(At(at, strides)) + place * step;
  }

  Shape indices;
  std::vector<int64_t> strides;
  size_t axis;
  int64_t size = 0, step = 0;
};

std::unique_ptr<graph::Kernel> GatherElementsKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::GatherElements&>(request.op);
  const Places places(request.inputs[0].shape, request.inputs[1].shape, op.axis);
  return WithType(request.inputs[0].dtype, [&](auto element) {
    return WithIndexType(request.inputs[1].dtype, [&](auto index) {
      using T = decltype(element);
      using I = decltype(index);
      return MakeKernel([places](const KernelArgs& args) {
        const auto* x = reinterpret_cast<const T*>(args.inputs[0]);
        const auto* indices = reinterpret_cast<const I*>(args.inputs[1]);
        auto* y = reinterpret_cast<T*>(args.outputs[0]);
        ForEach(places.indices, [&](size_t i, const Index& at) {
          const int64_t place = places.Of(at, indices[i]);
          y[i] = place < 0 ? T{} : x[place];
        });
      });
    });
  });
}

std::unique_ptr<graph::Kernel> ScatterElementsAddKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::ScatterElementsAdd&>(request.op);
  const Places places(op.shape, request.inputs[1].shape, op.axis);
  return WithIndexType(request.inputs[1].dtype, [&](auto index) {
    using I = decltype(index);
    return MakeKernel([places, n = op.shape.elements()](const KernelArgs& args) {
      const float* x = In(args, 0);
      const auto* indices = reinterpret_cast<const I*>(args.inputs[1]);
      float* y = Out(args);
      std::fill_n(y, n, 0.0f);
      ForEach(places.indices, [&](size_t i, const Index& at) {
        const int64_t place = places.Of(at, indices[i]);
        if (place >= 0) y[place] += x[i];
      });
    });
  });
}

std::unique_ptr<graph::Kernel> OneHotKernel(const KernelRequest& request) {
  const int64_t depth = static_cast<const ops::OneHot&>(request.op).depth;
  const int64_t count = request.inputs[0].shape.elements();
  return WithIndexType(request.inputs[0].dtype, [&](auto index) {
    using I = decltype(index);
    return MakeKernel([depth, count](const KernelArgs& args) {
      const auto* indices = reinterpret_cast<const I*>(args.inputs[0]);
      float* y = Out(args);
      std::fill_n(y, count * depth, 0.0f);
      for (int64_t k = 0; k < count; ++k) {
        const int64_t at = ops::PlaceOf(indices[k], depth);
        if (at >= 0) y[k * depth + at] = 1;
      }
    });
  });
}

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

void AddIndex(graph::KernelTable& table) {
  table.Add("embedding", EmbeddingKernel);
  table.Add("embedding_grad", EmbeddingGradKernel);
  table.Add("gather", GatherKernel);
  table.Add("gather_elements", GatherElementsKernel);
  table.Add("one_hot", OneHotKernel);
  table.Add("scatter_add", ScatterAddKernel);
  table.Add("scatter_elements_add", ScatterElementsAddKernel);
}

}  // namespace leat::reference
