#include <algorithm>
#include <cstring>

#include "base/multiversion.h"
#include "kernels/onednn/inline.h"
#include "kernels/onednn/kernels.h"
#include "ops/convolution/avg_pool.h"
#include "ops/convolution/max_pool.h"

namespace leat::onednn {
namespace {

// The elements of a window that are no padding: how far behind its base they lie, and their numbers.
struct Taps {
  const size_t* offsets;
  const int32_t* numbers;
  size_t count;
};

// Windows over images x[batch, height, width, channels] that make y[batch, out_height, out_width, channels].
struct Windows {
  Windows(const ops::PoolAttributes& a, const Shape& x, const Shape& y)
      : batch(x[0]), height(x[1]), width(x[2]), channels(x[3]), out_height(y[1]), out_width(y[2]), attr(a) {
    for (int64_t ky = 0; ky < a.kernel.height; ++ky) {
      for (int64_t kx = 0; kx < a.kernel.width; ++kx) {
        offsets.push_back(static_cast<size_t>((ky * width + kx) * channels));
        numbers.push_back(static_cast<int32_t>(numbers.size()));
      }
    }
    some_offsets = offsets;
    some_numbers = numbers;
    tile = a.strides == a.kernel && a.padding == ops::Padding{} && height == out_height * a.kernel.height &&
           width == out_width * a.kernel.width;
  }

  // f(place of the window's base in an image, its taps), for the windows of one image in order.
  template <class F>
  LEAT_INLINE void ForEach(F f) {
    const Taps all{offsets.data(), numbers.data(), offsets.size()};
    for (int64_t oy = 0; oy < out_height; ++oy) {
      const int64_t top = oy * attr.strides.height - attr.padding.top;
      const bool rows_inside = top >= 0 && top + attr.kernel.height <= height;
      for (int64_t ox = 0; ox < out_width; ++ox) {
        const int64_t left = ox * attr.strides.width - attr.padding.left;
        if (rows_inside && left >= 0 && left + attr.kernel.width <= width) {
          f(static_cast<size_t>((top * width + left) * channels), all);
        } else {
          f(size_t{0}, TapsInside(top, left));
        }
      }
    }
  }

  size_t image() const { return static_cast<size_t>(height * width * channels); }

  int64_t batch, height, width, channels, out_height, out_width;
  ops::PoolAttributes attr;
  bool tile;  // every element is in exactly one window

 private:
  // Of a window that reaches out of the image.
  Taps TapsInside(int64_t top, int64_t left) {
    size_t count = 0;
    const int64_t first_y = std::max<int64_t>(-top, 0), first_x = std::max<int64_t>(-left, 0);
    const int64_t end_y = std::min(attr.kernel.height, height - top);
    const int64_t end_x = std::min(attr.kernel.width, width - left);
    for (int64_t ky = first_y; ky < end_y; ++ky) {
      for (int64_t kx = first_x; kx < end_x; ++kx) {
        some_offsets[count] = static_cast<size_t>(((top + ky) * width + left + kx) * channels);
        some_numbers[count++] = static_cast<int32_t>(ky * attr.kernel.width + kx);
      }
    }
    return {some_offsets.data(), some_numbers.data(), count};
  }

  std::vector<size_t> offsets, some_offsets;
  std::vector<int32_t> numbers, some_numbers;
};

// -1 where `here` takes the place of `best`, else 0: NaN is larger than any number, and the first one stays.
// As masks, since the compiler makes vector code of these and not of conditions.
LEAT_INLINE int32_t Larger(float here, float best) {
  const int32_t above = here > best ? -1 : 0;
  const int32_t none = here != here ? -1 : 0;
  const int32_t number = best == best ? -1 : 0;
  return above | (none & number);
}

// All taps at once, in registers.
template <size_t kCount, class Index>
LEAT_INLINE void MaxOfTaps(const float* x, const Taps& taps, size_t channels, float* y, Index* index) {
  const float* places[kCount];
  int32_t numbers[kCount];
  for (size_t k = 0; k < kCount; ++k) {
    places[k] = x + taps.offsets[k];
    numbers[k] = taps.numbers[k];
  }
#pragma GCC ivdep
  for (size_t c = 0; c < channels; ++c) {
    float best = places[0][c];
    int32_t at = numbers[0];
#pragma GCC unroll 9
    for (size_t k = 1; k < kCount; ++k) {
      const float here = places[k][c];
      const int32_t larger = Larger(here, best);
      best = larger != 0 ? here : best;
      at = larger != 0 ? numbers[k] : at;
    }
    y[c] = best;
    index[c] = static_cast<Index>(at);
  }
}

// A tap after the other.
template <class Index>
LEAT_INLINE void MaxOfTaps(const float* x, const Taps& taps, size_t channels, float* y, Index* index) {
  for (size_t c = 0; c < channels; ++c) {
    y[c] = x[taps.offsets[0] + c];
    index[c] = static_cast<Index>(taps.numbers[0]);
  }
  for (size_t k = 1; k < taps.count; ++k) {
    const float* here = x + taps.offsets[k];
    const auto number = static_cast<Index>(taps.numbers[k]);
#pragma GCC ivdep
    for (size_t c = 0; c < channels; ++c) {
      const int32_t larger = Larger(here[c], y[c]);
      y[c] = larger != 0 ? here[c] : y[c];
      index[c] = larger != 0 ? number : index[c];
    }
  }
}

template <class Index>
LEAT_INLINE void MaxOfWindows(Windows& windows, const float* x, float* y, Index* index) {
  const auto channels = static_cast<size_t>(windows.channels);
  for (int64_t n = 0; n < windows.batch; ++n, x += windows.image()) {
    windows.ForEach([&](size_t base, const Taps& taps) LEAT_INLINE_LAMBDA {
      if (taps.count == 4) {
        MaxOfTaps<4>(x + base, taps, channels, y, index);
      } else if (taps.count == 9) {
        MaxOfTaps<9>(x + base, taps, channels, y, index);
      } else {
        MaxOfTaps(x + base, taps, channels, y, index);
      }
      y += channels;
      index += channels;
    });
  }
}

// dx = or += dy at the tap that the index names, = or += 0 at the others.
template <bool kAdd, class Index>
LEAT_INLINE void ScatterWindow(const float* dy, const Index* index, const Taps& taps, size_t channels,
                               float* dx) {
  for (size_t k = 0; k < taps.count; ++k) {
    float* to = dx + taps.offsets[k];
    const int32_t number = taps.numbers[k];
#pragma GCC ivdep
    for (size_t c = 0; c < channels; ++c) {
      const float part = static_cast<int32_t>(index[c]) == number ? dy[c] : 0.0f;
      to[c] = kAdd ? to[c] + part : part;
    }
  }
}

template <class Index>
LEAT_INLINE void ScatterWindows(Windows& windows, const float* dy, const Index* index, float* dx) {
  const auto channels = static_cast<size_t>(windows.channels);
  for (int64_t n = 0; n < windows.batch; ++n, dx += windows.image()) {
    // An image at a time, so that what is added to is still near.
    if (!windows.tile) std::memset(dx, 0, windows.image() * sizeof(float));
    windows.ForEach([&](size_t base, const Taps& taps) LEAT_INLINE_LAMBDA {
      if (windows.tile) {
        ScatterWindow<false>(dy, index, taps, channels, dx + base);
      } else {
        ScatterWindow<true>(dy, index, taps, channels, dx + base);
      }
      dy += channels;
      index += channels;
    });
  }
}

// What the mean of a window is divided by, as a factor.
LEAT_INLINE float Share(const Windows& windows, const Taps& taps, bool include_pad) {
  const ops::Pair& kernel = windows.attr.kernel;
  return 1.0f /
         (include_pad ? static_cast<float>(kernel.height * kernel.width) : static_cast<float>(taps.count));
}

LEAT_MULTIVERSION
void MeanOfWindows(Windows& windows, const float* x, float* y, bool include_pad) {
  const auto channels = static_cast<size_t>(windows.channels);
  for (int64_t n = 0; n < windows.batch; ++n, x += windows.image()) {
    windows.ForEach([&](size_t base, const Taps& taps) LEAT_INLINE_LAMBDA {
      const float share = Share(windows, taps, include_pad);
      std::fill(y, y + channels, 0.0f);
      for (size_t k = 0; k < taps.count; ++k) {
        const float* here = x + base + taps.offsets[k];
#pragma GCC ivdep
        for (size_t c = 0; c < channels; ++c) y[c] += share * here[c];
      }
      y += channels;
    });
  }
}

LEAT_MULTIVERSION
void SpreadOverWindows(Windows& windows, const float* dy, float* dx, bool include_pad) {
  const auto channels = static_cast<size_t>(windows.channels);
  for (int64_t n = 0; n < windows.batch; ++n, dx += windows.image()) {
    if (!windows.tile) std::memset(dx, 0, windows.image() * sizeof(float));
    windows.ForEach([&](size_t base, const Taps& taps) LEAT_INLINE_LAMBDA {
      const float share = Share(windows, taps, include_pad);
      for (size_t k = 0; k < taps.count; ++k) {
        float* to = dx + base + taps.offsets[k];
        if (windows.tile) {
#pragma GCC ivdep
          for (size_t c = 0; c < channels; ++c) to[c] = share * dy[c];
        } else {
#pragma GCC ivdep
          for (size_t c = 0; c < channels; ++c) to[c] += share * dy[c];
        }
      }
      dy += channels;
    });
  }
}

LEAT_MULTIVERSION
void MaxOfWindowsU8(Windows& windows, const float* x, float* y, uint8_t* index) {
  MaxOfWindows(windows, x, y, index);
}
LEAT_MULTIVERSION
void MaxOfWindowsI32(Windows& windows, const float* x, float* y, int32_t* index) {
  MaxOfWindows(windows, x, y, index);
}
LEAT_MULTIVERSION
void ScatterWindowsU8(Windows& windows, const float* dy, const uint8_t* index, float* dx) {
  ScatterWindows(windows, dy, index, dx);
}
LEAT_MULTIVERSION
void ScatterWindowsI32(Windows& windows, const float* dy, const int32_t* index, float* dx) {
  ScatterWindows(windows, dy, index, dx);
}

KernelPtr MakeMaxPool(const KernelRequest& request) {
  const auto& op = static_cast<const ops::MaxPool&>(request.op);
  Windows windows(op.attr, request.inputs[0].shape, request.outputs[0].shape);
  if (request.outputs[1].dtype == DType::kU8) {
    return Loop([windows = std::move(windows)](const KernelArgs& args) mutable {
      MaxOfWindowsU8(windows, In(args, 0), Out(args, 0), reinterpret_cast<uint8_t*>(args.outputs[1]));
    });
  }
  return Loop([windows = std::move(windows)](const KernelArgs& args) mutable {
    MaxOfWindowsI32(windows, In(args, 0), Out(args, 0), reinterpret_cast<int32_t*>(args.outputs[1]));
  });
}

KernelPtr MakeMaxPoolGrad(const KernelRequest& request) {
  const auto& op = static_cast<const ops::MaxPoolGrad&>(request.op);
  Windows windows(op.attr, request.outputs[0].shape, request.inputs[0].shape);
  if (request.inputs[1].dtype == DType::kU8) {
    return Loop([windows = std::move(windows)](const KernelArgs& args) mutable {
      ScatterWindowsU8(windows, In(args, 0), reinterpret_cast<const uint8_t*>(args.inputs[1]), Out(args, 0));
    });
  }
  return Loop([windows = std::move(windows)](const KernelArgs& args) mutable {
    ScatterWindowsI32(windows, In(args, 0), reinterpret_cast<const int32_t*>(args.inputs[1]), Out(args, 0));
  });
}

KernelPtr MakeAvgPool(const KernelRequest& request) {
  const auto& op = static_cast<const ops::AvgPool&>(request.op);
  Windows windows(op.attr, request.inputs[0].shape, request.outputs[0].shape);
  return Loop(
      [windows = std::move(windows), include_pad = op.count_include_pad](const KernelArgs& args) mutable {
        MeanOfWindows(windows, In(args, 0), Out(args, 0), include_pad);
      });
}

KernelPtr MakeAvgPoolGrad(const KernelRequest& request) {
  const auto& op = static_cast<const ops::AvgPoolGrad&>(request.op);
  Windows windows(op.attr, request.outputs[0].shape, request.inputs[0].shape);
  return Loop(
      [windows = std::move(windows), include_pad = op.count_include_pad](const KernelArgs& args) mutable {
        SpreadOverWindows(windows, In(args, 0), Out(args, 0), include_pad);
      });
}

}  // namespace

void AddPool(graph::KernelTable& table) {
  table.factories.insert({
      {"max_pool", MakeMaxPool},
      {"max_pool_grad", MakeMaxPoolGrad},
      {"avg_pool", MakeAvgPool},
      {"avg_pool_grad", MakeAvgPoolGrad},
  });
}

}  // namespace leat::onednn
