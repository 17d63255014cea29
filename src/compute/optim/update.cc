#include "compute/optim/update.h"

#include <cmath>

#include "base/multiversion.h"
#include "compute/optim/norm.h"

namespace leat::optim {

LEAT_MULTIVERSION
void UpdateSgd(float* __restrict w, const float* __restrict g, size_t n, float rate, float decay) {
  for (size_t i = 0; i < n; ++i) w[i] -= rate * (g[i] + decay * w[i]);
}

LEAT_MULTIVERSION
void UpdateMomentum(float* __restrict w, const float* __restrict g, float* __restrict velocity, size_t n,
                    float rate, float momentum, float decay) {
  for (size_t i = 0; i < n; ++i) {
    const float v = momentum * velocity[i] + (g[i] + decay * w[i]);
    velocity[i] = v;
    w[i] -= rate * v;
  }
}

LEAT_MULTIVERSION
void UpdateNesterov(float* __restrict w, const float* __restrict g, float* __restrict velocity, size_t n,
                    float rate, float momentum, float decay) {
  for (size_t i = 0; i < n; ++i) {
    const float d = g[i] + decay * w[i];
    const float v = momentum * velocity[i] + d;
    velocity[i] = v;
    w[i] -= rate * (d + momentum * v);
  }
}

LEAT_MULTIVERSION
void UpdateAdagrad(float* __restrict w, const float* __restrict g, float* __restrict accumulator, size_t n,
                   float rate, float epsilon, float decay) {
  for (size_t i = 0; i < n; ++i) {
    const float d = g[i] + decay * w[i];
    const float a = accumulator[i] + d * d;
    accumulator[i] = a;
    w[i] -= rate * d / (std::sqrt(a) + epsilon);
  }
}

namespace {

// The update of one element; `mean` is used only if centered.
template <bool kCentered>
[[gnu::always_inline]] inline float RmspropStep(float w, float g, float* square, float* mean,
                                                const RmspropFactors& f) {
  const float rest = 1.0f - f.alpha;
  const float d = g + f.decay * w;
  const float s = f.alpha * *square + rest * (d * d);
  *square = s;
  float variance = s;
  if constexpr (kCentered) {
    const float m = f.alpha * *mean + rest * d;
    *mean = m;
    // Rounding may make it negative.
    variance = s - m * m > 0.0f ? s - m * m : 0.0f;
  }
  return d / (std::sqrt(variance) + f.epsilon);
}

}  // namespace

LEAT_MULTIVERSION
void UpdateRmsprop(float* __restrict w, const float* __restrict g, float* __restrict square,
                   float* __restrict mean, float* __restrict velocity, size_t n,
                   const RmspropFactors& factors) {
  const RmspropFactors f = factors;
  if (velocity == nullptr && mean == nullptr) {
    for (size_t i = 0; i < n; ++i) w[i] -= f.rate * RmspropStep<false>(w[i], g[i], square + i, nullptr, f);
  } else if (velocity == nullptr) {
    for (size_t i = 0; i < n; ++i) w[i] -= f.rate * RmspropStep<true>(w[i], g[i], square + i, mean + i, f);
  } else if (mean == nullptr) {
    for (size_t i = 0; i < n; ++i) {
      const float v = f.momentum * velocity[i] + RmspropStep<false>(w[i], g[i], square + i, nullptr, f);
      velocity[i] = v;
      w[i] -= f.rate * v;
    }
  } else {
    for (size_t i = 0; i < n; ++i) {
      const float v = f.momentum * velocity[i] + RmspropStep<true>(w[i], g[i], square + i, mean + i, f);
      velocity[i] = v;
      w[i] -= f.rate * v;
    }
  }
}

LEAT_MULTIVERSION
void UpdateAdam(float* __restrict w, const float* __restrict g, float* __restrict moment1,
                float* __restrict moment2, size_t n, const AdamFactors& factors) {
  const AdamFactors f = factors;
  const float rest1 = 1.0f - f.beta1;
  const float rest2 = 1.0f - f.beta2;
  for (size_t i = 0; i < n; ++i) {
    const float d = g[i] + f.decay * w[i];
    const float m = f.beta1 * moment1[i] + rest1 * d;
    const float v = f.beta2 * moment2[i] + rest2 * (d * d);
    moment1[i] = m;
    moment2[i] = v;
    w[i] = f.keep * w[i] - f.rate * m / (std::sqrt(v) * f.inverse_root_correction2 + f.epsilon);
  }
}

namespace {

[[gnu::always_inline]] inline float LambDirection(float w, float m, float v, const LambFactors& f) {
  return m * f.inverse_correction1 / (std::sqrt(v) * f.inverse_root_correction2 + f.epsilon) + f.decay * w;
}

struct LambLanes {
  double weights[kNormLanes] = {};
  double directions[kNormLanes] = {};
};

// Updates the moments of a block of elements, one per lane, and adds to the sums of squares.
[[gnu::always_inline]] inline void LambMoments(const float* __restrict w, const float* __restrict g,
                                               float* __restrict moment1, float* __restrict moment2,
                                               size_t lanes, const LambFactors& f, LambLanes& sums) {
  const float rest1 = 1.0f - f.beta1;
  const float rest2 = 1.0f - f.beta2;
  for (size_t l = 0; l < lanes; ++l) {
    const float m = f.beta1 * moment1[l] + rest1 * g[l];
    const float v = f.beta2 * moment2[l] + rest2 * (g[l] * g[l]);
    moment1[l] = m;
    moment2[l] = v;
    const double u = LambDirection(w[l], m, v, f);
    sums.weights[l] += double{w[l]} * double{w[l]};
    sums.directions[l] += u * u;
  }
}

}  // namespace

LEAT_MULTIVERSION
LambNorms UpdateLambMoments(const float* __restrict w, const float* __restrict g, float* __restrict moment1,
                            float* __restrict moment2, size_t n, const LambFactors& factors) {
  const LambFactors f = factors;
  LambLanes sums;
  const size_t whole = n / kNormLanes * kNormLanes;
  for (size_t i = 0; i < whole; i += kNormLanes) {
    LambMoments(w + i, g + i, moment1 + i, moment2 + i, kNormLanes, f, sums);
  }
  LambMoments(w + whole, g + whole, moment1 + whole, moment2 + whole, n - whole, f, sums);
  return {SumOfLanes(sums.weights), SumOfLanes(sums.directions)};
}

LEAT_MULTIVERSION
void UpdateLamb(float* __restrict w, const float* __restrict moment1, const float* __restrict moment2,
                size_t n, float rate, const LambFactors& factors) {
  const LambFactors f = factors;
  for (size_t i = 0; i < n; ++i) w[i] -= rate * LambDirection(w[i], moment1[i], moment2[i], f);
}

}  // namespace leat::optim
