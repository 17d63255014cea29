#include "optim/update.h"

#include <cmath>

#include "base/multiversion.h"

namespace leat::optim {

LEAT_MULTIVERSION
void UpdateSgd(float* __restrict w, const float* __restrict g, size_t n, float rate) {
  for (size_t i = 0; i < n; ++i) w[i] -= rate * g[i];
}

LEAT_MULTIVERSION
void UpdateMomentum(float* __restrict w, const float* __restrict g, float* __restrict velocity, size_t n,
                    float rate, float momentum) {
  for (size_t i = 0; i < n; ++i) {
    const float v = momentum * velocity[i] + g[i];
    velocity[i] = v;
    w[i] -= rate * v;
  }
}

LEAT_MULTIVERSION
void UpdateAdagrad(float* __restrict w, const float* __restrict g, float* __restrict accumulator, size_t n,
                   float rate, float epsilon) {
  for (size_t i = 0; i < n; ++i) {
    const float a = accumulator[i] + g[i] * g[i];
    accumulator[i] = a;
    w[i] -= rate * g[i] / (std::sqrt(a) + epsilon);
  }
}

LEAT_MULTIVERSION
void UpdateAdam(float* __restrict w, const float* __restrict g, float* __restrict moment1,
                float* __restrict moment2, size_t n, const AdamFactors& factors) {
  const AdamFactors f = factors;
  const float rest1 = 1.0f - f.beta1;
  const float rest2 = 1.0f - f.beta2;
  for (size_t i = 0; i < n; ++i) {
    const float m = f.beta1 * moment1[i] + rest1 * g[i];
    const float v = f.beta2 * moment2[i] + rest2 * (g[i] * g[i]);
    moment1[i] = m;
    moment2[i] = v;
    w[i] -= f.rate * m / (std::sqrt(v) * f.inverse_root_correction2 + f.epsilon);
  }
}

}  // namespace leat::optim
