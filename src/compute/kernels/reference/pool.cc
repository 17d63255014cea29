#include <cmath>

#include "compute/kernels/reference/kernels.h"
#include "compute/ops/convolution/convolution.h"

namespace leat::reference {
namespace {

// Windows over images x, one per element of y.
struct Windows {
  Windows(const ops::PoolAttributes& a, const Shape& x_shape, const Shape& y_shape)
      : attr(a), x(x_shape), y(y_shape) {}

  // Calls f(position in y, batch, output row, output column, channel).
  template <class F>
  void ForEach(F f) const {
    int64_t at = 0;
    for (int64_t n = 0; n < y[0]; ++n) {
      for (int64_t oy = 0; oy < y[1]; ++oy) {
        for (int64_t ox = 0; ox < y[2]; ++ox) {
          for (int64_t c = 0; c < y[3]; ++c) f(at++, n, oy, ox, c);
        }
      }
    }
  }

  // Position in x of element `k` of a window, -1 if it is padding or out of range.
  int64_t Place(int64_t k, int64_t n, int64_t oy, int64_t ox, int64_t c) const {
    if (k < 0 || k >= elements()) return -1;
    const int64_t iy = oy * attr.strides.height + k / attr.kernel.width - attr.padding.top;
    const int64_t ix = ox * attr.strides.width + k % attr.kernel.width - attr.padding.left;
    if (iy < 0 || iy >= x[1] || ix < 0 || ix >= x[2]) return -1;
    return ((n * x[1] + iy) * x[2] + ix) * x[3] + c;
  }
  int64_t elements() const { return attr.kernel.height * attr.kernel.width; }

  ops::PoolAttributes attr;
  Shape x, y;
};

// Calls f with a value of the type of the indices.
template <class F>
auto WithWindowIndex(DType type, F f) {
  return type == DType::kU8 ? f(uint8_t{}) : f(int32_t{});
}

std::unique_ptr<graph::Kernel> MaxPoolKernel(const KernelRequest& request) {
  const Windows windows(static_cast<const ops::MaxPool&>(request.op).attr, request.inputs[0].shape,
                        request.outputs[0].shape);
  return WithWindowIndex(request.outputs[1].dtype, [&](auto zero) {
    using I = decltype(zero);
    return MakeKernel([windows](const KernelArgs& args) {
      const float* x = In(args, 0);
      auto* index = reinterpret_cast<I*>(args.outputs[1]);
      windows.ForEach([&](int64_t at, int64_t n, int64_t oy, int64_t ox, int64_t c) {
        int64_t best = -1, place = -1;
        for (int64_t k = 0; k < windows.elements(); ++k) {
          const int64_t here = windows.Place(k, n, oy, ox, c);
          if (here < 0 ||
              (place >= 0 && (std::isnan(x[place]) || !(x[here] > x[place] || std::isnan(x[here])))))
            continue;
          best = k;
          place = here;
        }
        Out(args)[at] = x[place];
        index[at] = static_cast<I>(best);
      });
    });
  });
}

std::unique_ptr<graph::Kernel> MaxPoolGradKernel(const KernelRequest& request) {
  const Windows windows(static_cast<const ops::MaxPoolGrad&>(request.op).attr, request.outputs[0].shape,
                        request.inputs[0].shape);
  return WithWindowIndex(request.inputs[1].dtype, [&](auto zero) {
    using I = decltype(zero);
    return MakeKernel([windows](const KernelArgs& args) {
      const auto* index = reinterpret_cast<const I*>(args.inputs[1]);
      float* dx = Out(args);
      for (int64_t i = 0; i < windows.x.elements(); ++i) dx[i] = 0;
      windows.ForEach([&](int64_t at, int64_t n, int64_t oy, int64_t ox, int64_t c) {
        const int64_t place = windows.Place(index[at], n, oy, ox, c);
        if (place >= 0) dx[place] += In(args, 0)[at];
      });
    });
  });
}

std::unique_ptr<graph::Kernel> MaxPoolGatherKernel(const KernelRequest& request) {
  const Windows windows(static_cast<const ops::MaxPoolGather&>(request.op).attr, request.inputs[0].shape,
                        request.outputs[0].shape);
  return WithWindowIndex(request.inputs[1].dtype, [&](auto zero) {
    using I = decltype(zero);
    return MakeKernel([windows](const KernelArgs& args) {
      const auto* index = reinterpret_cast<const I*>(args.inputs[1]);
      windows.ForEach([&](int64_t at, int64_t n, int64_t oy, int64_t ox, int64_t c) {
        const int64_t place = windows.Place(index[at], n, oy, ox, c);
        Out(args)[at] = place >= 0 ? In(args, 0)[place] : 0;
      });
    });
  });
}

// The divisor of the mean of a window.
int64_t Count(const Windows& windows, bool include_pad, int64_t oy, int64_t ox) {
  if (include_pad) return windows.elements();
  int64_t count = 0;
  for (int64_t k = 0; k < windows.elements(); ++k) count += windows.Place(k, 0, oy, ox, 0) >= 0;
  return count;
}

std::unique_ptr<graph::Kernel> AvgPoolKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::AvgPool&>(request.op);
  const Windows windows(op.attr, request.inputs[0].shape, request.outputs[0].shape);
  return MakeKernel([windows, include_pad = op.count_include_pad](const KernelArgs& args) {
    windows.ForEach([&](int64_t at, int64_t n, int64_t oy, int64_t ox, int64_t c) {
      double sum = 0;
      for (int64_t k = 0; k < windows.elements(); ++k) {
        const int64_t place = windows.Place(k, n, oy, ox, c);
        if (place >= 0) sum += static_cast<double>(In(args, 0)[place]);
      }
      Out(args)[at] = static_cast<float>(sum / static_cast<double>(Count(windows, include_pad, oy, ox)));
    });
  });
}

std::unique_ptr<graph::Kernel> AvgPoolGradKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::AvgPoolGrad&>(request.op);
  const Windows windows(op.attr, request.outputs[0].shape, request.inputs[0].shape);
  return MakeKernel([windows, include_pad = op.count_include_pad](const KernelArgs& args) {
    float* dx = Out(args);
    for (int64_t i = 0; i < windows.x.elements(); ++i) dx[i] = 0;
    windows.ForEach([&](int64_t at, int64_t n, int64_t oy, int64_t ox, int64_t c) {
      const float share = In(args, 0)[at] / static_cast<float>(Count(windows, include_pad, oy, ox));
      for (int64_t k = 0; k < windows.elements(); ++k) {
        const int64_t place = windows.Place(k, n, oy, ox, c);
        if (place >= 0) dx[place] += share;
      }
    });
  });
}

}  // namespace

void AddPool(graph::KernelTable& table) {
  table.Add("avg_pool", AvgPoolKernel);
  table.Add("avg_pool_grad", AvgPoolGradKernel);
  table.Add("max_pool", MaxPoolKernel);
  table.Add("max_pool_gather", MaxPoolGatherKernel);
  table.Add("max_pool_grad", MaxPoolGradKernel);
}

}  // namespace leat::reference
