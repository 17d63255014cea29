#include <algorithm>
#include <limits>

#include "base/multiversion.h"
#include "compute/kernels/cpu/inline.h"
#include "compute/kernels/cpu/kernels.h"
#include "compute/kernels/cpu/math.h"
#include "compute/ops/loss/loss.h"

namespace leat::cpu {
namespace {

// Rows are processed in blocks: small enough to stay in the L1 cache between passes, and large enough to
// vectorise across short rows.
constexpr size_t kMaxSoftmaxRows = 64;
constexpr size_t kMaxElements = 4096;
// Shorter rows are faster without vector code.
constexpr size_t kShortRow = 16;

struct SoftmaxRows {
  size_t count = 0;
  size_t size = 0;  // elements of each row
  size_t at_once() const { return std::clamp<size_t>(kMaxElements / size, 1, kMaxSoftmaxRows); }
};

SoftmaxRows SoftmaxRowsOf(const TensorType& type) {
  const auto size = static_cast<size_t>(type.shape[type.shape.rank() - 1]);
  return {Elements(type) / size, size};
}

LEAT_INLINE float LargestOf(const float* x, size_t n) {
  float largest = -std::numeric_limits<float>::infinity();
  if (n < kShortRow) {
    for (size_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
    return largest;
  }
#pragma omp simd reduction(max : largest)
  for (size_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

LEAT_INLINE float Sum(const float* x, size_t n) {
  float sum = 0;
  if (n < kShortRow) {
    for (size_t i = 0; i < n; ++i) sum += x[i];
    return sum;
  }
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

// For rows larger than the L1 cache: sums while computing the exponentials.
LEAT_INLINE void SoftmaxOfLong(const float* x, float* y, size_t n, float* largest, float* sums) {
  const float most = LargestOf(x, n);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < n; ++i) {
    const float e = Exp(x[i] - most);
    y[i] = e;
    sum += e;
  }
  const float factor = 1.0f / sum;
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) y[i] *= factor;
  *largest = most;
  *sums = sum;
}

// y = softmax(x) for a block of rows. largest[i] is the maximum of row i, sums[i] its softmax denominator. y
// may be x.
LEAT_INLINE void SoftmaxOfSome(const float* x, float* y, size_t count, size_t n, float* largest,
                               float* sums) {
  if (n > kMaxElements) return SoftmaxOfLong(x, y, n, largest, sums);
  for (size_t row = 0; row < count; ++row) {
    const float most = LargestOf(x + row * n, n);
    largest[row] = most;
#pragma GCC ivdep
    for (size_t i = 0; i < n; ++i) y[row * n + i] = x[row * n + i] - most;
  }
#pragma GCC ivdep
  for (size_t i = 0; i < count * n; ++i) y[i] = Exp(y[i]);
  for (size_t row = 0; row < count; ++row) {
    sums[row] = Sum(y + row * n, n);
    const float factor = 1.0f / sums[row];
#pragma GCC ivdep
    for (size_t i = 0; i < n; ++i) y[row * n + i] *= factor;
  }
}

LEAT_MULTIVERSION
void Softmax(const float* x, float* y, const SoftmaxRows& rows) {
  float largest[kMaxSoftmaxRows], sums[kMaxSoftmaxRows];
  const size_t at_once = rows.at_once();
  for (size_t row = 0; row < rows.count; row += at_once) {
    const size_t count = std::min(at_once, rows.count - row);
    SoftmaxOfSome(x + row * rows.size, y + row * rows.size, count, rows.size, largest, sums);
  }
}

LEAT_MULTIVERSION
void SoftmaxGrad(const float* y, const float* dy, float* dx, const SoftmaxRows& rows) {
  const size_t n = rows.size;
  for (size_t row = 0; row < rows.count; ++row, y += n, dy += n, dx += n) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; ++i) sum += y[i] * dy[i];
#pragma GCC ivdep
    for (size_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - sum);
  }
}

LEAT_MULTIVERSION
void LogSoftmax(const float* x, float* y, const SoftmaxRows& rows) {
  const size_t n = rows.size;
  for (size_t row = 0; row < rows.count; ++row, x += n, y += n) {
    const float most = LargestOf(x, n);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; ++i) sum += Exp(x[i] - most);
    const float log_sum = Log(sum);
#pragma GCC ivdep
    for (size_t i = 0; i < n; ++i) y[i] = (x[i] - most) - log_sum;
  }
}

LEAT_MULTIVERSION
void CrossEntropy(const float* logits, const float* labels, float* loss, float* probabilities,
                  const SoftmaxRows& rows) {
  float largest[kMaxSoftmaxRows], sums[kMaxSoftmaxRows], chosen[kMaxSoftmaxRows];
  const size_t n = rows.size;
  const size_t at_once = rows.at_once();
  for (size_t row = 0; row < rows.count; row += at_once) {
    const size_t count = std::min(at_once, rows.count - row);
    const float* x = logits + row * n;
    // Read the logits before the probabilities may overwrite them.
    for (size_t i = 0; i < count; ++i) {
      const int64_t label = ops::ClassOf(labels[row + i], static_cast<int64_t>(n));
      chosen[i] = label < 0 ? 0.0f : x[i * n + static_cast<size_t>(label)];
    }
    SoftmaxOfSome(x, probabilities + row * n, count, n, largest, sums);
    const auto classes = static_cast<float>(n);
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) {
      const float label = labels[row + i];
      const float value = Log(sums[i]) + (largest[i] - chosen[i]);
      loss[row + i] = ((label >= 0.0f) & (label < classes)) ? value : 0.0f;
    }
  }
}

LEAT_MULTIVERSION
void CrossEntropyGrad(const float* probabilities, const float* labels, const float* dloss, float* dlogits,
                      const SoftmaxRows& rows) {
  const size_t n = rows.size;
  for (size_t row = 0; row < rows.count; ++row, probabilities += n, dlogits += n) {
    const int64_t label = ops::ClassOf(labels[row], static_cast<int64_t>(n));
    if (label < 0) {
      std::fill(dlogits, dlogits + n, 0.0f);
      continue;
    }
    const float d = dloss[row];
    const float rest = (probabilities[label] - 1.0f) * d;
#pragma GCC ivdep
    for (size_t i = 0; i < n; ++i) dlogits[i] = probabilities[i] * d;
    dlogits[label] = rest;
  }
}

KernelPtr MakeSoftmax(const KernelRequest& request) {
  return Loop([rows = SoftmaxRowsOf(request.inputs[0])](
                  const KernelArgs& args) { Softmax(In(args, 0), Out(args, 0), rows); },
              {0});
}

KernelPtr MakeSoftmaxGrad(const KernelRequest& request) {
  return Loop([rows = SoftmaxRowsOf(request.inputs[0])](
                  const KernelArgs& args) { SoftmaxGrad(In(args, 0), In(args, 1), Out(args, 0), rows); },
              {0, 0});
}

KernelPtr MakeLogSoftmax(const KernelRequest& request) {
  return Loop([rows = SoftmaxRowsOf(request.inputs[0])](
                  const KernelArgs& args) { LogSoftmax(In(args, 0), Out(args, 0), rows); },
              {0});
}

KernelPtr MakeSoftmaxCrossEntropy(const KernelRequest& request) {
  return Loop(
      [rows = SoftmaxRowsOf(request.inputs[0])](const KernelArgs& args) {
        CrossEntropy(In(args, 0), In(args, 1), Out(args, 0), Out(args, 1), rows);
      },
      {1});
}

KernelPtr MakeSoftmaxCrossEntropyGrad(const KernelRequest& request) {
  return Loop(
      [rows = SoftmaxRowsOf(request.inputs[0])](const KernelArgs& args) {
        CrossEntropyGrad(In(args, 0), In(args, 1), In(args, 2), Out(args, 0), rows);
      },
      {0});
}

}  // namespace

void AddSoftmax(graph::KernelTable& table) {
  table.Add("softmax", MakeSoftmax);
  table.Add("softmax_grad", MakeSoftmaxGrad);
  table.Add("log_softmax", MakeLogSoftmax);
  table.Add("softmax_cross_entropy", MakeSoftmaxCrossEntropy);
  table.Add("softmax_cross_entropy_grad", MakeSoftmaxCrossEntropyGrad);
}

}  // namespace leat::cpu
