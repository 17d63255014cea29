#include "compute/optim/mean.h"

#include "base/check.h"
#include "base/multiversion.h"

namespace leat::optim {
namespace {

LEAT_MULTIVERSION
void Set(float* __restrict sum, const float* __restrict g, size_t n, float weight) {
  for (size_t i = 0; i < n; ++i) sum[i] = g[i] * weight;
}

LEAT_MULTIVERSION
void Add(float* __restrict sum, const float* __restrict g, size_t n, float weight) {
  for (size_t i = 0; i < n; ++i) sum[i] += g[i] * weight;
}

LEAT_MULTIVERSION
void SetBoth(float* __restrict sum, const float* __restrict a, const float* __restrict b, size_t n,
             float weight) {
  // Data from another process is not in the cache, and the hardware prefetcher stops at page boundaries.
  constexpr size_t kLine = 16, kAhead = 16 * kLine;
  size_t i = 0;
  for (; i + kLine <= n; i += kLine) {
    __builtin_prefetch(a + i + kAhead);
    __builtin_prefetch(b + i + kAhead);
    for (size_t j = i; j < i + kLine; ++j) sum[j] = (a[j] + b[j]) * weight;
  }
  for (; i < n; ++i) sum[i] = (a[i] + b[i]) * weight;
}

LEAT_MULTIVERSION
void Multiply(float* sum, size_t n, float scale) {
  for (size_t i = 0; i < n; ++i) sum[i] *= scale;
}

}  // namespace

void SetWeighted(std::span<float> sum, std::span<const float> gradient, float weight) {
  LEAT_CHECK(sum.size() == gradient.size());
  Set(sum.data(), gradient.data(), sum.size(), weight);
}

void AddWeighted(std::span<float> sum, std::span<const float> gradient, float weight) {
  LEAT_CHECK(sum.size() == gradient.size());
  Add(sum.data(), gradient.data(), sum.size(), weight);
}

void SetSum(std::span<float> sum, std::span<const std::span<const float>> terms, size_t begin, float weight) {
  for (const auto& term : terms) LEAT_CHECK(begin <= term.size() && sum.size() <= term.size() - begin);
  const auto term = [&](size_t i) { return terms[i].data() + begin; };
  if (terms.size() == 1) return Set(sum.data(), term(0), sum.size(), weight);
  if (terms.size() == 2) return SetBoth(sum.data(), term(0), term(1), sum.size(), weight);
  SetBoth(sum.data(), term(0), term(1), sum.size(), 1.0f);
  for (size_t i = 2; i < terms.size(); ++i) Add(sum.data(), term(i), sum.size(), 1.0f);
  Scale(sum, weight);
}

void Scale(std::span<float> sum, float scale) {
  if (scale != 1.0f) Multiply(sum.data(), sum.size(), scale);
}

}  // namespace leat::optim
