#include <algorithm>
#include <cstring>
#include <limits>

#include "base/multiversion.h"
#include "compute/kernels/cpu/inline.h"
#include "compute/kernels/cpu/kernels.h"
#include "compute/ops/convolution/convolution.h"

namespace leat::cpu {
namespace {

// The elements of a window that are not padding: their offsets from the window's base, and their indices.
struct Taps {
  const size_t* offsets;
  const int32_t* numbers;
  size_t count;
};

// Adjacent windows of a row with the same taps.
struct WindowRun {
  size_t base;  // offset of the first window in an image
  Taps taps;
  size_t elements;  // windows x channels
};

// Windows over images x[batch, height, width, channels], for y[batch, out_height, out_width, channels].
class Windows {
 public:
  Windows(const ops::PoolAttributes& a, const Shape& x, const Shape& y)
      : batch_(x[0]),
        height_(x[1]),
        width_(x[2]),
        channels_(x[3]),
        out_height_(y[1]),
        out_width_(y[2]),
        attr_(a),
        tile_(a.strides == a.kernel && a.padding == ops::Padding{} &&
              height_ == out_height_ * a.kernel.height && width_ == out_width_ * a.kernel.width) {
    for (int64_t ky = 0; ky < a.kernel.height; ++ky) {
      for (int64_t kx = 0; kx < a.kernel.width; ++kx) {
        offsets_.push_back(static_cast<size_t>((ky * width_ + kx) * channels_));
        numbers_.push_back(static_cast<int32_t>(numbers_.size()));
      }
    }
    some_offsets_ = offsets_;
    some_numbers_ = numbers_;
    if (channels_ % kLanes == 0 || channels_ >= kMany ||
        width_ * channels_ > std::numeric_limits<int32_t>::max())
      return;
    for (int64_t ox = 0; ox < out_width_; ++ox) {
      for (int64_t c = 0; c < channels_; ++c) {
        places_.push_back(static_cast<int32_t>(ox * a.strides.width * channels_ + c));
      }
    }
  }

  // Whether these loops support the windows. Windows larger than the image are excluded: they are mostly
  // padding.
  static bool Cover(const ops::PoolAttributes& a, const Shape& x) {
    return a.kernel.height <= x[1] && a.kernel.width <= x[2];
  }

  // Calls f(run) for the windows of one image in order. Runs have one window unless there are few channels.
  template <class F>
  LEAT_INLINE void ForEach(F f) {
    const Taps all{offsets_.data(), numbers_.data(), offsets_.size()};
    for (int64_t oy = 0; oy < out_height_; ++oy) {
      const int64_t top = oy * attr_.strides.height - attr_.padding.top;
      const bool rows_inside = top >= 0 && top + attr_.kernel.height <= height_;
      for (int64_t ox = 0; ox < out_width_;) {
        const int64_t left = ox * attr_.strides.width - attr_.padding.left;
        const bool columns_inside = left >= 0 && left + attr_.kernel.width <= width_;
        int64_t windows = 1;
        if (columns_inside && few_channels()) {
          windows = std::min((width_ - left - attr_.kernel.width) / attr_.strides.width + 1, out_width_ - ox);
        }
        const auto elements = static_cast<size_t>(windows * channels_);
        if (rows_inside && columns_inside) {
          f(WindowRun{static_cast<size_t>((top * width_ + left) * channels_), all, elements});
        } else {
          f(WindowRun{0, TapsInside(top, left), elements});
        }
        ox += windows;
      }
    }
  }

  int64_t batch() const { return batch_; }
  size_t image() const { return static_cast<size_t>(height_ * width_ * channels_); }
  const ops::Pair& kernel() const { return attr_.kernel; }
  // Every element is in exactly one window.
  bool tile() const { return tile_; }
  // Whether one window has too few channels to fill a vector.
  bool few_channels() const { return !places_.empty(); }
  // Offsets of the elements of a run from its base, if there are few channels.
  const int32_t* places() const { return places_.data(); }

 private:
  // From this many channels on, vectors within one window are as fast.
  static constexpr int64_t kLanes = 16, kMany = 128;

  // The taps of a window that extends beyond the image.
  Taps TapsInside(int64_t top, int64_t left) {
    size_t count = 0;
    const int64_t first_y = std::max<int64_t>(-top, 0), first_x = std::max<int64_t>(-left, 0);
    const int64_t end_y = std::min(attr_.kernel.height, height_ - top);
    const int64_t end_x = std::min(attr_.kernel.width, width_ - left);
    for (int64_t ky = first_y; ky < end_y; ++ky) {
      for (int64_t kx = first_x; kx < end_x; ++kx) {
        some_offsets_[count] = static_cast<size_t>(((top + ky) * width_ + left + kx) * channels_);
        some_numbers_[count++] = static_cast<int32_t>(ky * attr_.kernel.width + kx);
      }
    }
    return {some_offsets_.data(), some_numbers_.data(), count};
  }

  int64_t batch_, height_, width_, channels_, out_height_, out_width_;
  ops::PoolAttributes attr_;
  bool tile_;
  std::vector<size_t> offsets_, some_offsets_;
  std::vector<int32_t> numbers_, some_numbers_;
  std::vector<int32_t> places_;
};

// Offset of element i of a run from its base: contiguous, or by a table.
struct Dense {
  static constexpr bool kContiguous = true;
  LEAT_INLINE size_t operator()(size_t i) const { return i; }
};
struct Listed {
  static constexpr bool kContiguous = false;
  const int32_t* places;
  LEAT_INLINE size_t operator()(size_t i) const { return static_cast<size_t>(places[i]); }
};

// Calls f(i) for all elements of a run. Indices have one byte, so the widest vector loop may exceed the
// number of channels; such windows use a narrower loop.
template <class At, class F>
LEAT_INLINE void ForElements(size_t count, F f) {
  if (At::kContiguous && count % 32 == 0) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) f(i);
  } else {
#pragma omp simd simdlen(16)
    for (size_t i = 0; i < count; ++i) f(i);
  }
}

// -1 if `here` replaces `best`, else 0. NaN is larger than any number, and the first of equal elements wins.
// Uses masks, which the compiler vectorises, unlike conditions.
LEAT_INLINE int32_t Larger(float here, float best) {
  const int32_t above = here > best ? -1 : 0;
  const int32_t none = here != here ? -1 : 0;
  const int32_t number = best == best ? -1 : 0;
  return above | (none & number);
}

// All taps at once, in registers.
template <size_t kCount, class At, class Index>
LEAT_INLINE void MaxOfTaps(const float* x, const WindowRun& run, At at, float* y, Index* index) {
  const float* taps[kCount];
  int32_t numbers[kCount];
  for (size_t k = 0; k < kCount; ++k) {
    taps[k] = x + run.base + run.taps.offsets[k];
    numbers[k] = run.taps.numbers[k];
  }
  ForElements<At>(run.elements, [=](size_t i) LEAT_INLINE_LAMBDA {
    float best = taps[0][at(i)];
    int32_t number = numbers[0];
#pragma GCC unroll 9
    for (size_t k = 1; k < kCount; ++k) {
      const float here = taps[k][at(i)];
      const int32_t larger = Larger(here, best);
      best = larger != 0 ? here : best;
      number = larger != 0 ? numbers[k] : number;
    }
    y[i] = best;
    index[i] = static_cast<Index>(number);
  });
}

// Takes the taps of all windows one after the other.
template <class At, class Index>
LEAT_INLINE void MaxOfTaps(const float* x, const WindowRun& run, At at, float* y, Index* index) {
  const Taps& taps = run.taps;
  for (size_t i = 0; i < run.elements; ++i) {
    y[i] = x[run.base + taps.offsets[0] + at(i)];
    index[i] = static_cast<Index>(taps.numbers[0]);
  }
  for (size_t k = 1; k < taps.count; ++k) {
    const float* from = x + run.base + taps.offsets[k];
    const auto number = static_cast<Index>(taps.numbers[k]);
    ForElements<At>(run.elements, [=](size_t i) LEAT_INLINE_LAMBDA {
      const float here = from[at(i)];
      const int32_t larger = Larger(here, y[i]);
      y[i] = larger != 0 ? here : y[i];
      index[i] = larger != 0 ? number : index[i];
    });
  }
}

template <class At, class Index>
LEAT_INLINE void MaxOfWindows(Windows& windows, At at, const float* x, float* y, Index* index) {
  for (int64_t n = 0; n < windows.batch(); ++n, x += windows.image()) {
    windows.ForEach([&](const WindowRun& run) LEAT_INLINE_LAMBDA {
      constexpr bool kSmall = sizeof(Index) == 1;  // a kernel of 2 x 2 or 3 x 3 has such indices
      if (kSmall && run.taps.count == 4) {
        MaxOfTaps<4>(x, run, at, y, index);
      } else if (kSmall && run.taps.count == 9) {
        MaxOfTaps<9>(x, run, at, y, index);
      } else {
        MaxOfTaps(x, run, at, y, index);
      }
      y += run.elements;
      index += run.elements;
    });
  }
}

// dx = or += dy at the tap given by the index, 0 at the others.
template <bool kAdd, class At, class Index>
LEAT_INLINE void ScatterRun(const float* dy, const Index* index, const WindowRun& run, At at, float* dx) {
  for (size_t k = 0; k < run.taps.count; ++k) {
    float* to = dx + run.base + run.taps.offsets[k];
    const int32_t number = run.taps.numbers[k];
    ForElements<At>(run.elements, [=](size_t i) LEAT_INLINE_LAMBDA {
      const float part = static_cast<int32_t>(index[i]) == number ? dy[i] : 0.0f;
      to[at(i)] = kAdd ? to[at(i)] + part : part;
    });
  }
}

template <class At, class Index>
LEAT_INLINE void ScatterWindows(Windows& windows, At at, const float* dy, const Index* index, float* dx) {
  for (int64_t n = 0; n < windows.batch(); ++n, dx += windows.image()) {
    // Cleared image by image, so that dx stays in the cache.
    if (!windows.tile()) std::memset(dx, 0, windows.image() * sizeof(float));
    windows.ForEach([&](const WindowRun& run) LEAT_INLINE_LAMBDA {
      if (windows.tile()) {
        ScatterRun<false>(dy, index, run, at, dx);
      } else {
        ScatterRun<true>(dy, index, run, at, dx);
      }
      dy += run.elements;
      index += run.elements;
    });
  }
}

// 1 / the divisor of the mean of a window.
LEAT_INLINE float Share(const Windows& windows, const WindowRun& run, bool include_pad) {
  const ops::Pair& kernel = windows.kernel();
  return 1.0f / (include_pad ? static_cast<float>(kernel.height * kernel.width)
                             : static_cast<float>(run.taps.count));
}

template <class At>
LEAT_INLINE void MeanOfWindows(Windows& windows, At at, const float* x, float* y, bool include_pad) {
  for (int64_t n = 0; n < windows.batch(); ++n, x += windows.image()) {
    windows.ForEach([&](const WindowRun& run) LEAT_INLINE_LAMBDA {
      const float share = Share(windows, run, include_pad);
      std::fill(y, y + run.elements, 0.0f);
      for (size_t k = 0; k < run.taps.count; ++k) {
        const float* from = x + run.base + run.taps.offsets[k];
        ForElements<At>(run.elements, [=](size_t i) LEAT_INLINE_LAMBDA { y[i] += share * from[at(i)]; });
      }
      y += run.elements;
    });
  }
}

template <class At>
LEAT_INLINE void SpreadOverWindows(Windows& windows, At at, const float* dy, float* dx, bool include_pad) {
  for (int64_t n = 0; n < windows.batch(); ++n, dx += windows.image()) {
    if (!windows.tile()) std::memset(dx, 0, windows.image() * sizeof(float));
    windows.ForEach([&](const WindowRun& run) LEAT_INLINE_LAMBDA {
      const float share = Share(windows, run, include_pad);
      for (size_t k = 0; k < run.taps.count; ++k) {
        float* to = dx + run.base + run.taps.offsets[k];
        if (windows.tile()) {
          ForElements<At>(run.elements, [=](size_t i) LEAT_INLINE_LAMBDA { to[at(i)] = share * dy[i]; });
        } else {
          ForElements<At>(run.elements, [=](size_t i) LEAT_INLINE_LAMBDA { to[at(i)] += share * dy[i]; });
        }
      }
      dy += run.elements;
    });
  }
}

// The loops for many channels and for few, with the rest of their arguments.
#define LEAT_POOL_LOOP(Name, Loop, parameters, ...)       \
  LEAT_MULTIVERSION void Name##Many parameters {          \
    Loop(windows, Dense{}, __VA_ARGS__);                  \
  }                                                       \
  LEAT_MULTIVERSION void Name##Few parameters {           \
    Loop(windows, Listed{windows.places()}, __VA_ARGS__); \
  }

LEAT_POOL_LOOP(MaxU8, MaxOfWindows, (Windows & windows, const float* x, float* y, uint8_t* index), x, y,
               index)
LEAT_POOL_LOOP(MaxI32, MaxOfWindows, (Windows & windows, const float* x, float* y, int32_t* index), x, y,
               index)
LEAT_POOL_LOOP(ScatterU8, ScatterWindows,
               (Windows & windows, const float* dy, const uint8_t* index, float* dx), dy, index, dx)
LEAT_POOL_LOOP(ScatterI32, ScatterWindows,
               (Windows & windows, const float* dy, const int32_t* index, float* dx), dy, index, dx)
LEAT_POOL_LOOP(Mean, MeanOfWindows, (Windows & windows, const float* x, float* y, bool include_pad), x, y,
               include_pad)
LEAT_POOL_LOOP(Spread, SpreadOverWindows, (Windows & windows, const float* dy, float* dx, bool include_pad),
               dy, dx, include_pad)
#undef LEAT_POOL_LOOP

template <class Index>
KernelPtr MaxPoolKernel(Windows windows, void (*loop)(Windows&, const float*, float*, Index*)) {
  return Loop([windows = std::move(windows), loop](const KernelArgs& args) mutable {
    loop(windows, In(args, 0), Out(args, 0), reinterpret_cast<Index*>(args.outputs[1]));
  });
}

template <class Index>
KernelPtr ScatterKernel(Windows windows, void (*loop)(Windows&, const float*, const Index*, float*)) {
  return Loop([windows = std::move(windows), loop](const KernelArgs& args) mutable {
    loop(windows, In(args, 0), reinterpret_cast<const Index*>(args.inputs[1]), Out(args, 0));
  });
}

KernelPtr AvgKernel(Windows windows, bool include_pad, void (*loop)(Windows&, const float*, float*, bool)) {
  return Loop([windows = std::move(windows), include_pad, loop](const KernelArgs& args) mutable {
    loop(windows, In(args, 0), Out(args, 0), include_pad);
  });
}

KernelPtr MakeMaxPool(const KernelRequest& request) {
  const auto& op = static_cast<const ops::MaxPool&>(request.op);
  const Shape &x = request.inputs[0].shape, &y = request.outputs[0].shape;
  if (!Windows::Cover(op.attr, x)) return nullptr;
  Windows windows(op.attr, x, y);
  const bool few = windows.few_channels();
  if (request.outputs[1].dtype == DType::kU8) {
    return MaxPoolKernel(std::move(windows), few ? MaxU8Few : MaxU8Many);
  }
  return MaxPoolKernel(std::move(windows), few ? MaxI32Few : MaxI32Many);
}

KernelPtr MakeMaxPoolGrad(const KernelRequest& request) {
  const auto& op = static_cast<const ops::MaxPoolGrad&>(request.op);
  const Shape &x = request.outputs[0].shape, &y = request.inputs[0].shape;
  if (!Windows::Cover(op.attr, x)) return nullptr;
  Windows windows(op.attr, x, y);
  const bool few = windows.few_channels();
  if (request.inputs[1].dtype == DType::kU8) {
    return ScatterKernel(std::move(windows), few ? ScatterU8Few : ScatterU8Many);
  }
  return ScatterKernel(std::move(windows), few ? ScatterI32Few : ScatterI32Many);
}

KernelPtr MakeAvgPool(const KernelRequest& request) {
  const auto& op = static_cast<const ops::AvgPool&>(request.op);
  const Shape &x = request.inputs[0].shape, &y = request.outputs[0].shape;
  if (!Windows::Cover(op.attr, x)) return nullptr;
  Windows windows(op.attr, x, y);
  const bool few = windows.few_channels();
  return AvgKernel(std::move(windows), op.count_include_pad, few ? MeanFew : MeanMany);
}

KernelPtr MakeAvgPoolGrad(const KernelRequest& request) {
  const auto& op = static_cast<const ops::AvgPoolGrad&>(request.op);
  const Shape &x = request.outputs[0].shape, &y = request.inputs[0].shape;
  if (!Windows::Cover(op.attr, x)) return nullptr;
  Windows windows(op.attr, x, y);
  const bool few = windows.few_channels();
  return AvgKernel(std::move(windows), op.count_include_pad, few ? SpreadFew : SpreadMany);
}

}  // namespace

void AddPool(graph::KernelTable& table) {
  table.Add("max_pool", MakeMaxPool);
  table.Add("max_pool_grad", MakeMaxPoolGrad);
  table.Add("avg_pool", MakeAvgPool);
  table.Add("avg_pool_grad", MakeAvgPoolGrad);
}

}  // namespace leat::cpu
