// Attention that does not store scores: for each head, a block of queries is processed with all its keys, so
// scores, weights and their gradients stay in the cache. The gradient recomputes the weights from the log of
// their sum (Dao et al. 2022), which is cheaper than storing and loading them.
#include "compute/ops/sequence/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/multiversion.h"
#include "compute/kernels/cpu/inline.h"
#include "compute/kernels/cpu/kernels.h"
#include "compute/kernels/cpu/math.h"

namespace leat::cpu {
namespace {

// Rows in the scratch memory are padded with zeros to whole vectors.
constexpr size_t kTileLanes = 16;
constexpr size_t Padded(size_t n) {
  return (n + kTileLanes - 1) / kTileLanes * kTileLanes;
}
// Queries per block: enough to reuse loaded keys, few enough to skip most keys behind a causal mask.
constexpr size_t kQueries = 32;

// The left operand of a product, read element by element.
struct Left {
  const float* data;
  size_t row, column;  // strides in elements
};

template <size_t kWidth>
struct Vector {
  typedef float Type __attribute__((vector_size(kWidth * sizeof(float)), aligned(alignof(float)), may_alias));
};

// c[kRows, kVectors · kWidth] = or += a b, with all sums in registers.
template <size_t kRows, size_t kVectors, size_t kWidth>
LEAT_INLINE void ProductTile(const Left& a, const float* b, size_t b_row, float* c, size_t c_row, size_t k,
                             bool add) {
  using V = typename Vector<kWidth>::Type;
  V sums[kRows][kVectors] = {};
  for (size_t p = 0; p < k; ++p) {
    V right[kVectors];
    for (size_t j = 0; j < kVectors; ++j) {
      right[j] = *reinterpret_cast<const V*>(b + p * b_row + j * kWidth);
    }
    for (size_t i = 0; i < kRows; ++i) {
      const float left = a.data[i * a.row + p * a.column];
      for (size_t j = 0; j < kVectors; ++j) sums[i][j] += left * right[j];
    }
  }
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < kVectors; ++j) {
      V& out = *reinterpret_cast<V*>(c + i * c_row + j * kWidth);
      out = add ? out + sums[i][j] : sums[i][j];
    }
  }
}

template <size_t kRows, size_t kWidth>
LEAT_INLINE void ProductRows(const Left& a, const float* b, size_t b_row, float* c, size_t c_row, size_t n,
                             size_t k, bool add) {
  size_t j = 0;
  for (; j + 2 * kWidth <= n; j += 2 * kWidth) {
    ProductTile<kRows, 2, kWidth>(a, b + j, b_row, c + j, c_row, k, add);
  }
  for (; j < n; j += kWidth) ProductTile<kRows, 1, kWidth>(a, b + j, b_row, c + j, c_row, k, add);
}

template <size_t kRows, size_t kWidth>
LEAT_INLINE void ProductOf(Left a, const float* b, size_t b_row, float* c, size_t c_row, size_t m, size_t n,
                           size_t k, bool add) {
  size_t i = 0;
  const auto at = [&](size_t row) LEAT_INLINE_LAMBDA { return Left{a.data + row * a.row, a.row, a.column}; };
  for (; i + kRows <= m; i += kRows) {
    ProductRows<kRows, kWidth>(at(i), b, b_row, c + i * c_row, c_row, n, k, add);
  }
  for (; i + 2 <= m; i += 2) ProductRows<2, kWidth>(at(i), b, b_row, c + i * c_row, c_row, n, k, add);
  if (i < m) ProductRows<1, kWidth>(at(i), b, b_row, c + i * c_row, c_row, n, k, add);
}

// c[m, n] = or += a[m, k] b[k, n], where n is a multiple of the vector size. Keeps as many sums as there are
// registers.
LEAT_MULTIVERSION
void WideProduct(const Left& a, const float* b, size_t b_row, float* c, size_t c_row, size_t m, size_t n,
                 size_t k, bool add) {
  ProductOf<8, 16>(a, b, b_row, c, c_row, m, n, k, add);
}
LEAT_MULTIVERSION
void NarrowProduct(const Left& a, const float* b, size_t b_row, float* c, size_t c_row, size_t m, size_t n,
                   size_t k, bool add) {
  ProductOf<5, 8>(a, b, b_row, c, c_row, m, n, k, add);
}
using ProductFunction = void (*)(const Left& a, const float* b, size_t b_row, float* c, size_t c_row,
                                 size_t m, size_t n, size_t k, bool add);

ProductFunction ChooseProduct() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512f") ? WideProduct : NarrowProduct;
#else
  return NarrowProduct;
#endif
}

// to[rows, columns], its rows padded, = factor · from
LEAT_MULTIVERSION
void CopyIn(const float* __restrict from, size_t stride, float* __restrict to, size_t rows, size_t columns,
            float factor) {
  const size_t padded = Padded(columns);
  for (size_t i = 0; i < rows; ++i, from += stride, to += padded) {
    for (size_t j = 0; j < columns; ++j) to[j] = factor * from[j];
    for (size_t j = columns; j < padded; ++j) to[j] = 0.0f;
  }
}

// to[columns, rows], its rows padded, = fromᵀ
LEAT_MULTIVERSION
void TransposeIn(const float* __restrict from, size_t stride, float* __restrict to, size_t rows,
                 size_t columns) {
  const size_t padded = Padded(rows);
  for (size_t i = 0; i < padded; i += kTileLanes) {
    const size_t count = std::min(kTileLanes, rows - i);
    for (size_t j = 0; j < columns; ++j) {
      float* out = to + j * padded + i;
      if (count == kTileLanes) {
        for (size_t r = 0; r < kTileLanes; ++r) out[r] = from[(i + r) * stride + j];
      } else {
        for (size_t r = 0; r < kTileLanes; ++r) out[r] = r < count ? from[(i + r) * stride + j] : 0.0f;
      }
    }
  }
}

// to[rows, columns] = factors[row] · from, whose rows are padded
LEAT_MULTIVERSION
void CopyOut(const float* __restrict from, float* __restrict to, size_t stride, size_t rows, size_t columns,
             const float* factors) {
  const size_t padded = Padded(columns);
  for (size_t i = 0; i < rows; ++i, from += padded, to += stride) {
    const float factor = factors[i];
    for (size_t j = 0; j < columns; ++j) to[j] = factor * from[j];
  }
}

// Mask without branches: an array of +infinity for each key, followed by -infinity for each key. A row with n
// visible keys reads it from n before the middle.
constexpr float kInfinity = std::numeric_limits<float>::infinity();

void FillLimits(float* limits, size_t keys) {
  std::fill_n(limits, keys, kInfinity);
  std::fill_n(limits + keys, keys, -kInfinity);
}

// Weights below this exponent are negligible, and denormal arithmetic would be slow.
constexpr float kMinExponent = -87.0f;

// Replaces scores of a block of queries by weights before division by their sum; 0 from seen[row] to `width`.
// `limits`: the middle of the mask.
LEAT_MULTIVERSION
void WeighScores(float* scores, size_t row_size, const float* limits, const size_t* seen, size_t rows,
                 size_t width, float factor, float* inverse_sums, float* log_sums) {
  for (size_t i = 0; i < rows; ++i, scores += row_size) {
    const float* limit = limits - seen[i];
    float most = -kInfinity;
#pragma omp simd reduction(max : most)
    for (size_t j = 0; j < width; ++j) {
      const float x = limit[j] < scores[j] ? limit[j] : scores[j];
      most = x > most ? x : most;
    }
    const float shift = seen[i] == 0 ? 0.0f : most * factor;
    // Separate from the sum, since the combined loop is not vectorised.
#pragma GCC ivdep
    for (size_t j = 0; j < width; ++j) {
      const float x = scores[j] * factor - shift;
      const float e = Exp(x < kMinExponent ? kMinExponent : x);
      scores[j] = limit[j] > 0.0f ? e : 0.0f;
    }
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < width; ++j) sum += scores[j];
    inverse_sums[i] = seen[i] == 0 ? 0.0f : 1.0f / sum;
    log_sums[i] = seen[i] == 0 ? 0.0f : shift + Log(sum);
  }
}

// Replaces scores by weights, and gradients of the weights by gradients of the scores.
LEAT_MULTIVERSION
void WeighGradients(float* scores, float* grads, size_t row_size, const float* limits, const size_t* seen,
                    size_t rows, size_t width, const float* log_sums, const float* levels) {
  for (size_t i = 0; i < rows; ++i, scores += row_size, grads += row_size) {
    const float* limit = limits - seen[i];
    const float log_sum = log_sums[i], level = levels[i];
#pragma GCC ivdep
    for (size_t j = 0; j < width; ++j) {
      const float x = scores[j] - log_sum;
      const float e = Exp(x < kMinExponent ? kMinExponent : x);
      const float p = limit[j] > 0.0f ? e : 0.0f;
      scores[j] = p;
      grads[j] = p * (grads[j] - level);
    }
  }
}

// levels[row] = dy · y
LEAT_MULTIVERSION
void Levels(const float* dy, const float* y, size_t stride, size_t rows, size_t columns, float* levels) {
  for (size_t i = 0; i < rows; ++i, dy += stride, y += stride) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < columns; ++j) sum += dy[j] * y[j];
    levels[i] = sum;
  }
}

// Memory layout of the heads of a tensor.
template <class T>
struct Heads {
  T* data;
  size_t time, stride;
  T* At(size_t batch, size_t t, size_t head, size_t size) const {
    return data + (batch * time + t) * stride + head * size;
  }
};

struct Sizes {
  explicit Sizes(const ops::AttentionShape& s)
      : shape(s),
        batch(static_cast<size_t>(s.batch)),
        queries(static_cast<size_t>(s.queries)),
        keys(static_cast<size_t>(s.keys)),
        heads(static_cast<size_t>(s.heads)),
        size(static_cast<size_t>(s.size)) {}

  // q, k and v; `pointer(i)` is the i-th input of the op, or output of the gradient.
  template <class T, class F>
  std::array<Heads<T>, 3> Split(F pointer) const {
    const size_t width = heads * size;
    if (!shape.packed) {
      return {{{pointer(0), queries, width}, {pointer(1), keys, width}, {pointer(2), keys, width}}};
    }
    T* qkv = pointer(0);
    return {{{qkv, queries, 3 * width}, {qkv + width, keys, 3 * width}, {qkv + 2 * width, keys, 3 * width}}};
  }
  int64_t LengthOf(const KernelArgs& args, size_t row) const {
    if (!shape.lengths) return shape.keys;
    return reinterpret_cast<const int32_t*>(args.inputs[shape.lengths_input()])[row];
  }
  float factor() const { return 1.0f / std::sqrt(static_cast<float>(size)); }
  size_t padded() const { return Padded(size); }
  size_t padded_keys() const { return Padded(keys); }

  ops::AttentionShape shape;
  size_t batch, queries, keys, heads, size;
};

// A block of queries of one head.
struct Some {
  Some(const Sizes& s, size_t first_query, int64_t length)
      : first(first_query), count(std::min(kQueries, s.queries - first_query)) {
    for (size_t i = 0; i < count; ++i) {
      seen[i] = static_cast<size_t>(s.shape.Visible(static_cast<int64_t>(first + i), length));
      most = std::max(most, seen[i]);
    }
    width = Padded(most);
  }

  size_t first, count;
  size_t most = 0;   // keys that any of them sees
  size_t width = 0;  // the same, padded
  std::array<size_t, kQueries> seen{};
};

// Allocates pieces of the scratch memory, aligned to cache lines.
class Scratch {
 public:
  explicit Scratch(std::byte* data) : next_(reinterpret_cast<float*>(data)) {}
  float* Take(size_t floats) {
    float* piece = next_;
    next_ += Padded(floats);
    return piece;
  }

 private:
  float* next_;
};

class AttentionKernel final : public graph::Kernel {
 public:
  explicit AttentionKernel(const ops::AttentionShape& shape) : s_(shape), product_(ChooseProduct()) {}

  size_t scratch_bytes() const override {
    return sizeof(float) * (s_.size * s_.padded_keys() + s_.keys * s_.padded() + kQueries * s_.padded_keys() +
                            kQueries * s_.padded() + 2 * s_.padded_keys());
  }

  void Run(const KernelArgs& args) override {
    const auto qkv = s_.Split<const float>([&](size_t i) { return In(args, i); });
    const Heads<float> y{Out(args, 0), s_.queries, s_.heads * s_.size};
    Scratch scratch(args.scratch);
    float* keys = scratch.Take(s_.size * s_.padded_keys());
    float* values = scratch.Take(s_.keys * s_.padded());
    float* scores = scratch.Take(kQueries * s_.padded_keys());
    float* sums = scratch.Take(kQueries * s_.padded());
    float* limits = scratch.Take(2 * s_.padded_keys());
    FillLimits(limits, s_.padded_keys());
    const size_t stride = qkv[1].stride, row = s_.padded_keys();
    std::array<float, kQueries> factors;
    for (size_t b = 0; b < s_.batch; ++b) {
      const int64_t length = s_.LengthOf(args, b);
      for (size_t h = 0; h < s_.heads; ++h) {
        TransposeIn(qkv[1].At(b, 0, h, s_.size), stride, keys, s_.keys, s_.size);
        CopyIn(qkv[2].At(b, 0, h, s_.size), stride, values, s_.keys, s_.size, 1.0f);
        for (size_t first = 0; first < s_.queries; first += kQueries) {
          const Some some(s_, first, length);
          const float* q = qkv[0].At(b, first, h, s_.size);
          product_({q, qkv[0].stride, 1}, keys, row, scores, row, some.count, some.width, s_.size, false);
          WeighScores(scores, row, limits + row, some.seen.data(), some.count, some.width, s_.factor(),
                      factors.data(), Out(args, 1) + (b * s_.heads + h) * s_.queries + first);
          product_({scores, row, 1}, values, s_.padded(), sums, s_.padded(), some.count, s_.padded(),
                   some.most, false);
          CopyOut(sums, y.At(b, first, h, s_.size), y.stride, some.count, s_.size, factors.data());
        }
      }
    }
  }

 private:
  const Sizes s_;
  const ProductFunction product_;
};

class AttentionGradKernel final : public graph::Kernel {
 public:
  explicit AttentionGradKernel(const ops::AttentionShape& shape) : s_(shape), product_(ChooseProduct()) {}

  size_t scratch_bytes() const override {
    return sizeof(float) *
           (2 * s_.size * s_.padded_keys() + 3 * s_.keys * s_.padded() + Padded(s_.keys) +
            2 * kQueries * s_.padded_keys() + 3 * kQueries * s_.padded() + 2 * s_.padded_keys());
  }

  void Run(const KernelArgs& args) override {
    const Pieces pieces(s_, args);
    for (size_t b = 0; b < s_.batch; ++b) {
      for (size_t h = 0; h < s_.heads; ++h) RunHead(pieces, args, b, h);
    }
  }

 private:
  // Tensors and scratch memory of a call.
  struct Pieces {
    Pieces(const Sizes& s, const KernelArgs& args)
        : qkv(s.Split<const float>([&](size_t i) { return In(args, i); })),
          grads(s.Split<float>([&](size_t i) { return Out(args, i); })),
          y{In(args, s.shape.inputs()), s.queries, s.heads * s.size},
          log_sums(In(args, s.shape.inputs() + 1)),
          dy{In(args, s.shape.inputs() + 2), s.queries, s.heads * s.size} {
      Scratch scratch(args.scratch);
      for (float** piece : {&keys_across, &values_across}) *piece = scratch.Take(s.size * s.padded_keys());
      for (float** piece : {&keys, &dkeys, &dvalues}) *piece = scratch.Take(s.keys * s.padded());
      ones = scratch.Take(s.keys);
      limits = scratch.Take(2 * s.padded_keys());
      FillLimits(limits, s.padded_keys());
      for (float** piece : {&scores, &dscores}) *piece = scratch.Take(kQueries * s.padded_keys());
      for (float** piece : {&queries, &dqueries, &dsums}) *piece = scratch.Take(kQueries * s.padded());
      std::fill_n(ones, s.keys, 1.0f);
    }
    std::array<Heads<const float>, 3> qkv;
    std::array<Heads<float>, 3> grads;
    Heads<const float> y;
    const float* log_sums;
    Heads<const float> dy;
    float *keys_across, *values_across, *keys, *dkeys, *dvalues, *ones, *limits, *scores, *dscores, *queries,
        *dqueries, *dsums;
  };

  void RunHead(const Pieces& p, const KernelArgs& args, size_t b, size_t h) {
    const size_t size = s_.size, padded = s_.padded(), stride = p.qkv[1].stride;
    const float *k = p.qkv[1].At(b, 0, h, size), *v = p.qkv[2].At(b, 0, h, size);
    TransposeIn(k, stride, p.keys_across, s_.keys, size);
    TransposeIn(v, stride, p.values_across, s_.keys, size);
    CopyIn(k, stride, p.keys, s_.keys, size, 1.0f);
    std::fill_n(p.dkeys, s_.keys * padded, 0.0f);
    std::fill_n(p.dvalues, s_.keys * padded, 0.0f);
    const int64_t length = s_.LengthOf(args, b);
    for (size_t first = 0; first < s_.queries; first += kQueries) {
      RunQueries(p, b, h, Some(s_, first, length));
    }
    const size_t grad_stride = p.grads[1].stride;
    CopyOut(p.dkeys, p.grads[1].At(b, 0, h, size), grad_stride, s_.keys, size, p.ones);
    CopyOut(p.dvalues, p.grads[2].At(b, 0, h, size), grad_stride, s_.keys, size, p.ones);
  }

  void RunQueries(const Pieces& p, size_t b, size_t h, const Some& some) {
    const size_t size = s_.size, padded = s_.padded(), row = s_.padded_keys(), n = some.count;
    const float* dy = p.dy.At(b, some.first, h, size);
    // Scaling the queries also scales the scores and the gradient of the keys.
    CopyIn(p.qkv[0].At(b, some.first, h, size), p.qkv[0].stride, p.queries, n, size, s_.factor());
    CopyIn(dy, p.dy.stride, p.dsums, n, size, 1.0f);
    std::array<float, kQueries> levels, factors;
    factors.fill(s_.factor());
    Levels(dy, p.y.At(b, some.first, h, size), p.dy.stride, n, size, levels.data());
    product_({p.queries, padded, 1}, p.keys_across, row, p.scores, row, n, some.width, size, false);
    product_({p.dsums, padded, 1}, p.values_across, row, p.dscores, row, n, some.width, size, false);
    WeighGradients(p.scores, p.dscores, row, p.limits + row, some.seen.data(), n, some.width,
                   p.log_sums + (b * s_.heads + h) * s_.queries + some.first, levels.data());
    product_({p.scores, 1, row}, p.dsums, padded, p.dvalues, padded, some.most, padded, n, true);
    product_({p.dscores, 1, row}, p.queries, padded, p.dkeys, padded, some.most, padded, n, true);
    product_({p.dscores, row, 1}, p.keys, padded, p.dqueries, padded, n, padded, some.most, false);
    CopyOut(p.dqueries, p.grads[0].At(b, some.first, h, size), p.grads[0].stride, n, size, factors.data());
  }

  const Sizes s_;
  const ProductFunction product_;
};

}  // namespace

void AddAttention(graph::KernelTable& table) {
  table.Add("attention", [](const KernelRequest& request) -> KernelPtr {
    const auto& op = static_cast<const ops::Attention&>(request.op);
    const auto shape = ops::AttentionShapeOf(op.settings, request.inputs);
    return std::make_unique<AttentionKernel>(shape);
  });
  table.Add("attention_grad", [](const KernelRequest& request) -> KernelPtr {
    const auto& op = static_cast<const ops::AttentionGrad&>(request.op);
    const auto forward = request.inputs.first(request.inputs.size() - 3);
    const auto shape = ops::AttentionShapeOf(op.settings, forward);
    return std::make_unique<AttentionGradKernel>(shape);
  });
}

}  // namespace leat::cpu
