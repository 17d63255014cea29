#include "compute/ops/sequence/attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compute/kernels/reference/kernels.h"

namespace leat::reference {
namespace {

// Memory layout of the heads of q, k or v: rows of `stride` elements, one per time step.
template <class T>
struct Heads {
  T* data;
  int64_t time, stride, size;
  T* At(int64_t batch, int64_t t, int64_t head) const {
    return data + (batch * time + t) * stride + head * size;
  }
};

// q, k and v at `pointer(i)`, where i is an input of the forward op or an output of the gradient.
template <class T, class F>
std::vector<Heads<T>> HeadsOf(const ops::AttentionShape& s, F pointer) {
  const int64_t width = s.heads * s.size;
  if (s.packed) {
    const Heads<T> q{pointer(0), s.queries, 3 * width, s.size};
    return {q, {q.data + width, s.keys, q.stride, s.size}, {q.data + 2 * width, s.keys, q.stride, s.size}};
  }
  return {{pointer(0), s.queries, width, s.size},
          {pointer(1), s.keys, width, s.size},
          {pointer(2), s.keys, width, s.size}};
}

double Dot(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// Calls f(batch, head, query, number of visible keys).
template <class F>
void ForEachQuery(const ops::AttentionShape& s, const KernelArgs& args, F f) {
  const auto* lengths =
      s.lengths ? reinterpret_cast<const int32_t*>(args.inputs[s.lengths_input()]) : nullptr;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      for (int64_t i = 0; i < s.queries; ++i) {
        f(b, h, i, s.Visible(i, lengths != nullptr ? lengths[b] : s.keys));
      }
    }
  }
}

// The scores of a query are in double precision in scratch memory.
std::unique_ptr<graph::Kernel> AttentionKernel(const KernelRequest& request) {
  const auto s =
      ops::AttentionShapeOf(static_cast<const ops::AttentionOp&>(request.op).settings, request.inputs);
  return MakeScratchKernel(static_cast<size_t>(s.keys) * sizeof(double), [s](const KernelArgs& args) {
    const auto qkv = HeadsOf<const float>(s, [&](size_t i) { return In(args, i); });
    const Heads<float> y{Out(args), s.queries, s.heads * s.size, s.size};
    auto* p = reinterpret_cast<double*>(args.scratch);
    ForEachQuery(s, args, [&](int64_t b, int64_t h, int64_t i, int64_t seen) {
      double most = 0, sum = 0;
      for (int64_t j = 0; j < seen; ++j) {
        p[j] = Dot(qkv[0].At(b, i, h), qkv[1].At(b, j, h), s.size) / std::sqrt(static_cast<double>(s.size));
        most = j == 0 ? p[j] : std::max(most, p[j]);
      }
      for (int64_t j = 0; j < seen; ++j) sum += p[j] = std::exp(p[j] - most);
      for (int64_t c = 0; c < s.size; ++c) {
        double value = 0;
        for (int64_t j = 0; j < seen; ++j) value += p[j] / sum * static_cast<double>(qkv[2].At(b, j, h)[c]);
        y.At(b, i, h)[c] = static_cast<float>(value);
      }
      Out(args, 1)[(b * s.heads + h) * s.queries + i] =
          seen == 0 ? 0 : static_cast<float>(most + std::log(sum));
    });
  });
}

// The gradients are accumulated in double precision in scratch memory.
std::unique_ptr<graph::Kernel> AttentionGradKernel(const KernelRequest& request) {
  const auto s = ops::AttentionShapeOf(static_cast<const ops::AttentionOp&>(request.op).settings,
                                       request.inputs.first(request.inputs.size() - 3));
  std::vector<size_t> sizes;  // elements of each output
  for (const TensorType& type : request.outputs) sizes.push_back(static_cast<size_t>(type.shape.elements()));
  const auto total = std::accumulate(sizes.begin(), sizes.end(), size_t{0});
  return MakeSums(static_cast<int64_t>(total), [s, sizes](const KernelArgs& args, double* sums) {
    const auto qkv = HeadsOf<const float>(s, [&](size_t i) { return In(args, i); });
    const auto grads =
        HeadsOf<double>(s, [&](size_t i) { return i == 0 ? sums : sums + sizes[0] + (i - 1) * sizes[1]; });
    const size_t after = s.inputs();
    const int64_t width = s.heads * s.size;
    const Heads<const float> y{In(args, after), s.queries, width, s.size};
    const Heads<const float> dy{In(args, after + 2), s.queries, width, s.size};
    const double factor = 1 / std::sqrt(static_cast<double>(s.size));
    ForEachQuery(s, args, [&](int64_t b, int64_t h, int64_t i, int64_t seen) {
      const float *q = qkv[0].At(b, i, h), *dyi = dy.At(b, i, h);
      const double l = static_cast<double>(In(args, after + 1)[(b * s.heads + h) * s.queries + i]);
      const double level = Dot(dyi, y.At(b, i, h), s.size);
      for (int64_t j = 0; j < seen; ++j) {
        const float *k = qkv[1].At(b, j, h), *v = qkv[2].At(b, j, h);
        const double p = std::exp(Dot(q, k, s.size) * factor - l);
        const double ds = p * (Dot(dyi, v, s.size) - level) * factor;
        for (int64_t c = 0; c < s.size; ++c) {
          grads[0].At(b, i, h)[c] += ds * static_cast<double>(k[c]);
          grads[1].At(b, j, h)[c] += ds * static_cast<double>(q[c]);
          grads[2].At(b, j, h)[c] += p * static_cast<double>(dyi[c]);
        }
      }
    });
    for (size_t o = 0; o < sizes.size(); ++o) {
      for (size_t i = 0; i < sizes[o]; ++i) Out(args, o)[i] = static_cast<float>(*sums++);
    }
  });
}

}  // namespace

void AddAttention(graph::KernelTable& table) {
  table.Add("attention", AttentionKernel);
  table.Add("attention_grad", AttentionGradKernel);
}

}  // namespace leat::reference
