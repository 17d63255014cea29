#include "compute/ops/sequence/attention.h"

#include <algorithm>
#include <cmath>

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
class AttentionKernel final : public graph::Kernel {
 public:
  explicit AttentionKernel(const KernelRequest& request)
      : s_(ops::AttentionShapeOf(static_cast<const ops::Attention&>(request.op).settings, request.inputs)) {}
  size_t scratch_bytes() const override { return static_cast<size_t>(s_.keys) * sizeof(double); }

  void Run(const KernelArgs& args) override {
    const auto qkv = HeadsOf<const float>(s_, [&](size_t i) { return In(args, i); });
    const Heads<float> y{Out(args), s_.queries, s_.heads * s_.size, s_.size};
    auto* p = reinterpret_cast<double*>(args.scratch);
    ForEachQuery(s_, args, [&](int64_t b, int64_t h, int64_t i, int64_t seen) {
      double most = 0, sum = 0;
      for (int64_t j = 0; j < seen; ++j) {
        p[j] = Dot(qkv[0].At(b, i, h), qkv[1].At(b, j, h), s_.size) / std::sqrt(static_cast<double>(s_.size));
        most = j == 0 ? p[j] : std::max(most, p[j]);
      }
      for (int64_t j = 0; j < seen; ++j) sum += p[j] = std::exp(p[j] - most);
      for (int64_t c = 0; c < s_.size; ++c) {
        double value = 0;
        for (int64_t j = 0; j < seen; ++j) value += p[j] / sum * static_cast<double>(qkv[2].At(b, j, h)[c]);
        y.At(b, i, h)[c] = static_cast<float>(value);
      }
      Out(args, 1)[(b * s_.heads + h) * s_.queries + i] =
          seen == 0 ? 0 : static_cast<float>(most + std::log(sum));
    });
  }

 private:
  const ops::AttentionShape s_;
};

// The gradients are accumulated in double precision in scratch memory.
class AttentionGradKernel final : public graph::Kernel {
 public:
  explicit AttentionGradKernel(const KernelRequest& request)
      : s_(ops::AttentionShapeOf(static_cast<const ops::AttentionGrad&>(request.op).settings,
                                 request.inputs.first(request.inputs.size() - 3))) {
    for (const TensorType& type : request.outputs)
      sizes_.push_back(static_cast<size_t>(type.shape.elements()));
    for (size_t size : sizes_) total_ += size;
  }
  size_t scratch_bytes() const override { return total_ * sizeof(double); }

  void Run(const KernelArgs& args) override {
    auto* sums = reinterpret_cast<double*>(args.scratch);
    std::fill_n(sums, total_, 0.0);
    const auto qkv = HeadsOf<const float>(s_, [&](size_t i) { return In(args, i); });
    const auto grads =
        HeadsOf<double>(s_, [&](size_t i) { return i == 0 ? sums : sums + sizes_[0] + (i - 1) * sizes_[1]; });
    const size_t after = s_.inputs();
    const int64_t width = s_.heads * s_.size;
    const Heads<const float> y{In(args, after), s_.queries, width, s_.size};
    const Heads<const float> dy{In(args, after + 2), s_.queries, width, s_.size};
    const double factor = 1 / std::sqrt(static_cast<double>(s_.size));
    ForEachQuery(s_, args, [&](int64_t b, int64_t h, int64_t i, int64_t seen) {
      const float *q = qkv[0].At(b, i, h), *dyi = dy.At(b, i, h);
      const double l = static_cast<double>(In(args, after + 1)[(b * s_.heads + h) * s_.queries + i]);
      const double level = Dot(dyi, y.At(b, i, h), s_.size);
      for (int64_t j = 0; j < seen; ++j) {
        const float *k = qkv[1].At(b, j, h), *v = qkv[2].At(b, j, h);
        const double p = std::exp(Dot(q, k, s_.size) * factor - l);
        const double ds = p * (Dot(dyi, v, s_.size) - level) * factor;
        for (int64_t c = 0; c < s_.size; ++c) {
          grads[0].At(b, i, h)[c] += ds * static_cast<double>(k[c]);
          grads[1].At(b, j, h)[c] += ds * static_cast<double>(q[c]);
          grads[2].At(b, j, h)[c] += p * static_cast<double>(dyi[c]);
        }
      }
    });
    for (size_t o = 0; o < sizes_.size(); ++o) {
      for (size_t i = 0; i < sizes_[o]; ++i) Out(args, o)[i] = static_cast<float>(*sums++);
    }
  }

 private:
  const ops::AttentionShape s_;
  std::vector<size_t> sizes_;  // elements of each output
  size_t total_ = 0;
};

}  // namespace

void AddAttention(graph::KernelTable& table) {
  table.Add("attention",
            [](const KernelRequest& request) { return std::make_unique<AttentionKernel>(request); });
  table.Add("attention_grad",
            [](const KernelRequest& request) { return std::make_unique<AttentionGradKernel>(request); });
}

}  // namespace leat::reference
