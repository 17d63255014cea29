// The loops behind Apply. Each element's result depends on that element alone: update.cc is compiled without
// contraction to fused multiply-add, so a vector's body, its tail and every width of vector round the same,
// and a slice comes out bit for bit the same wherever it begins and on whichever x86-64 it is updated.
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
// `mean` is null unless centered, `velocity` unless there is momentum.
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

// Lamb goes over a variable twice: its moments and the norms that they lead to, then the step.
struct LambFactors {
  float beta1;
  float beta2;
  float inverse_correction1;       // 1 / (1 - beta1^t)
  float inverse_root_correction2;  // 1 / √(1 - beta2^t)
  float epsilon;
  float decay;  // decoupled: of the direction, not of the gradient
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
