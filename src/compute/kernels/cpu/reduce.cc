#include <algorithm>
#include <optional>

#include "base/multiversion.h"
#include "compute/kernels/cpu/inline.h"
#include "compute/kernels/cpu/kernels.h"
#include "compute/ops/shape/reduce.h"
#include "compute/ops/shape/shape.h"

namespace leat::cpu {
namespace {

// y[outer, inner] = factor · the sum over r of x[outer, reduced, inner].
struct Box {
  size_t outer = 1;
  size_t reduced = 1;
  size_t inner = 1;
};

LEAT_MULTIVERSION
void SumRows(const float* x, float* y, const Box& box, float factor) {
  for (size_t o = 0; o < box.outer; ++o, x += box.reduced) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t r = 0; r < box.reduced; ++r) sum += x[r];
    y[o] = factor * sum;
  }
}

LEAT_MULTIVERSION
void SumColumns(const float* x, float* __restrict y, const Box& box, float factor) {
  const size_t n = box.inner;
  for (size_t o = 0; o < box.outer; ++o, y += n) {
    std::fill(y, y + n, 0.0f);
    size_t r = 0;
    // Eight rows per read and write of y; in pairs, to shorten the dependency chain.
    for (; r + 8 <= box.reduced; r += 8, x += 8 * n) {
#pragma GCC ivdep
      for (size_t i = 0; i < n; ++i) {
        const float* p = x + i;
        y[i] += ((p[0] + p[n]) + (p[2 * n] + p[3 * n])) + ((p[4 * n] + p[5 * n]) + (p[6 * n] + p[7 * n]));
      }
    }
    for (; r < box.reduced; ++r, x += n) {
#pragma GCC ivdep
      for (size_t i = 0; i < n; ++i) y[i] += x[i];
    }
    if (factor != 1.0f) {
      for (size_t i = 0; i < n; ++i) y[i] *= factor;
    }
  }
}

LEAT_MULTIVERSION
void Shares(const float* w, float* y, size_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < n; ++i) sum += w[i];
  const float divisor = sum == 0.0f ? 1.0f : sum;
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) y[i] = w[i] / divisor;
}

// The larger of two, or the smaller if kLargest is false. NaN propagates.
template <bool kLargest>
LEAT_INLINE float Further(float a, float b) {
  const bool takes_b = kLargest ? b > a : b < a;
  return (takes_b | (b != b)) ? b : a;
}

template <bool kLargest>
LEAT_INLINE void ExtremeOfRows(const float* x, float* y, const Box& box) {
  constexpr size_t kLanes = 16;
  for (size_t o = 0; o < box.outer; ++o, x += box.reduced) {
    float extreme = x[0];
    size_t r = 0;
    if (box.reduced >= kLanes) {
      float lanes[kLanes];
      std::copy(x, x + kLanes, lanes);
      for (r = kLanes; r + kLanes <= box.reduced; r += kLanes) {
        for (size_t i = 0; i < kLanes; ++i) lanes[i] = Further<kLargest>(lanes[i], x[r + i]);
      }
      for (size_t i = 0; i < kLanes; ++i) extreme = Further<kLargest>(extreme, lanes[i]);
    }
    for (; r < box.reduced; ++r) extreme = Further<kLargest>(extreme, x[r]);
    y[o] = extreme;
  }
}

template <bool kLargest>
LEAT_INLINE void ExtremeOfColumns(const float* x, float* __restrict y, const Box& box) {
  const size_t n = box.inner;
  for (size_t o = 0; o < box.outer; ++o, y += n) {
    std::copy(x, x + n, y);
    x += n;
    for (size_t r = 1; r < box.reduced; ++r, x += n) {
#pragma GCC ivdep
      for (size_t i = 0; i < n; ++i) y[i] = Further<kLargest>(y[i], x[i]);
    }
  }
}

LEAT_MULTIVERSION
void Largest(const float* x, float* y, const Box& box) {
  box.inner == 1 ? ExtremeOfRows<true>(x, y, box) : ExtremeOfColumns<true>(x, y, box);
}

LEAT_MULTIVERSION
void Smallest(const float* x, float* y, const Box& box) {
  box.inner == 1 ? ExtremeOfRows<false>(x, y, box) : ExtremeOfColumns<false>(x, y, box);
}

// The axes as a box; empty if they need more than three groups. `kept[i]`: axis i is not reduced.
std::optional<Box> BoxOf(const Shape& x, std::span<const unsigned> kept) {
  std::vector<AxisGroup> groups = Collapse(x.sizes(), kept);
  if (groups.empty() || groups.front().moves == 0) groups.insert(groups.begin(), {1, 1});
  if (groups.size() == 1) groups.push_back({1, 0});
  if (groups.size() == 2) groups.push_back({1, 1});
  if (groups.size() > 3) return std::nullopt;
  return Box{groups[0].size, groups[1].size, groups[2].size};
}

KernelPtr MakeSum(const Shape& x, std::span<const unsigned> kept, float factor) {
  const std::optional<Box> box = BoxOf(x, kept);
  if (!box) return nullptr;
  if (box->inner == 1) {
    return Loop([=](const KernelArgs& args) { SumRows(In(args, 0), Out(args, 0), *box, factor); });
  }
  return Loop([=](const KernelArgs& args) { SumColumns(In(args, 0), Out(args, 0), *box, factor); });
}

std::vector<unsigned> KeptAxes(const KernelRequest& request) {
  std::vector<unsigned> kept;
  const auto& op = static_cast<const ops::ReduceOp&>(request.op);
  for (const bool reduced : op.Reduced(request.inputs[0].shape.rank())) kept.push_back(reduced ? 0 : 1);
  return kept;
}

KernelPtr MakeReduce(const KernelRequest& request, float factor) {
  return MakeSum(request.inputs[0].shape, KeptAxes(request), factor);
}

KernelPtr MakeShares(const KernelRequest& request) {
  return Loop(
      [n = Elements(request.inputs[0])](const KernelArgs& args) { Shares(In(args, 0), Out(args, 0), n); },
      {0});
}

template <void (*kLoop)(const float*, float*, const Box&)>
KernelPtr MakeExtreme(const KernelRequest& request) {
  if (Elements(request.outputs[0]) == 0) return Loop([](const KernelArgs&) {});
  const std::optional<Box> box = BoxOf(request.inputs[0].shape, KeptAxes(request));
  if (!box) return nullptr;
  return Loop([box = *box](const KernelArgs& args) { kLoop(In(args, 0), Out(args, 0), box); });
}

KernelPtr MakeReduceSum(const KernelRequest& request) {
  return MakeReduce(request, 1.0f);
}

KernelPtr MakeReduceMean(const KernelRequest& request) {
  const auto count =
      static_cast<double>(Elements(request.inputs[0])) / static_cast<double>(Elements(request.outputs[0]));
  return MakeReduce(request, static_cast<float>(1.0 / count));
}

KernelPtr MakeSumTo(const KernelRequest& request) {
  const Shape& x = request.inputs[0].shape;
  std::vector<unsigned> kept;
  for (const int64_t stride : ops::BroadcastStrides(request.outputs[0].shape, x)) {
    kept.push_back(stride != 0 ? 1 : 0);
  }
  return MakeSum(x, kept, 1.0f);
}

}  // namespace

void AddReduce(graph::KernelTable& table) {
  table.Add("reduce_sum", MakeReduceSum);
  table.Add("reduce_mean", MakeReduceMean);
  table.Add("sum_to", MakeSumTo);
  table.Add("reduce_max", MakeExtreme<Largest>);
  table.Add("reduce_min", MakeExtreme<Smallest>);
  table.Add("shares", MakeShares);
}

}  // namespace leat::cpu
