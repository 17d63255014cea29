#include <algorithm>

#include "base/multiversion.h"
#include "kernels/onednn/inline.h"
#include "kernels/onednn/kernels.h"
#include "ops/shape/broadcast.h"
#include "ops/shape/reduce.h"

namespace leat::onednn {
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
    // Eight rows for each time that y is read and written; in pairs, so that the sums don't wait for each
    // other.
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

// `kept[i]`: axis i is still there afterwards.
KernelPtr MakeSum(const Shape& x, std::span<const unsigned> kept, float factor) {
  std::vector<Group> groups = Collapse(x.sizes(), kept);
  if (groups.empty() || groups.front().moves == 0) groups.insert(groups.begin(), {1, 1});
  if (groups.size() == 1) groups.push_back({1, 0});
  if (groups.size() == 2) groups.push_back({1, 1});
  if (groups.size() > 3) return nullptr;
  const Box box{groups[0].size, groups[1].size, groups[2].size};
  if (box.inner == 1) {
    return Loop([=](const KernelArgs& args) { SumRows(In(args, 0), Out(args, 0), box, factor); });
  }
  return Loop([=](const KernelArgs& args) { SumColumns(In(args, 0), Out(args, 0), box, factor); });
}

KernelPtr MakeReduce(const KernelRequest& request, float factor) {
  const Shape& x = request.inputs[0].shape;
  std::vector<unsigned> kept;
  for (const bool reduced : static_cast<const ops::ReduceOp&>(request.op).Reduced(x.rank())) {
    kept.push_back(reduced ? 0 : 1);
  }
  return MakeSum(x, kept, factor);
}

}  // namespace

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

}  // namespace leat::onednn
