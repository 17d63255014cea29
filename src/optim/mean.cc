#include "optim/mean.h"

#include <cstddef>

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

void Scale(std::span<float> sum, float scale) {
  if (scale != 1.0f) Multiply(sum.data(), sum.size(), scale);
}

}  // namespace leat::optim
