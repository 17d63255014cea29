// The loops of Apply. Each element depends only on the same element of its inputs. update.cc is compiled
// without fused multiply-add, so vector bodies and tails of every width round equally, and the result is
// bitwise equal wherever a slice begins and on any x86-64.
//
// `decay` · w is added to the gradient first (L2 regularisation).
#pragma once

#include <cstddef>

namespace leat::optim {

void UpdateSgd(float* w, const float* g, size_t n, float rate, float decay);
void UpdateMomentum(float* w, const float* g, float* velocity, size_t n, float rate, float momentum,
                    float decay);
void UpdateNesterov(float* w, const float* g, float* velocity, size_t n, float rate, float momentum,
                    float decay);
void UpdateAdagrad(float* w, const float* g, float* accumulator, size_t n, float rate, float epsilon,
                   float decay);

struct RmspropFactors {
  float rate;
  float alpha;
  float epsilon;
  float momentum;
  float decay;
};
// `mean` is null unless centered, `velocity` is null without momentum.
void UpdateRmsprop(float* w, const float* g, float* square, float* mean, float* velocity, size_t n,
                   const RmspropFactors& factors);

struct AdamFactors {
  float rate;  // learning rate / (1 - beta1^t)
  float beta1;
  float beta2;
  float inverse_root_correction2;  // 1 / √(1 - beta2^t)
  float epsilon;
  float decay;
  float keep;  // factor on w before the step: 1, or 1 - learning rate · weight decay (adamw)
};
void UpdateAdam(float* w, const float* g, float* moment1, float* moment2, size_t n,
                const AdamFactors& factors);

// Lamb makes two passes over a variable: first moments and norms, then the update.
struct LambFactors {
  float beta1;
  float beta2;
  float inverse_correction1;       // 1 / (1 - beta1^t)
  float inverse_root_correction2;  // 1 / √(1 - beta2^t)
  float epsilon;
  float decay;  // decoupled: added to the direction, not to the gradient
};
struct LambNorms {
  double weights;    // Σ w²
  double direction;  // Σ u²
};
LambNorms UpdateLambMoments(const float* w, const float* g, float* moment1, float* moment2, size_t n,
                            const LambFactors& factors);
// w -= rate · u
void UpdateLamb(float* w, const float* moment1, const float* moment2, size_t n, float rate,
                const LambFactors& factors);

}  // namespace leat::optim
