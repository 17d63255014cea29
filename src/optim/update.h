// The loops behind Apply. Each element's result depends on that element alone: update.cc is compiled without
// contraction to fused multiply-add, so a vector's body, its tail and every width of vector round the same,
// and a slice comes out bit for bit the same wherever it begins and on whichever x86-64 it is updated.
#pragma once

#include <cstddef>

namespace leat::optim {

struct AdamFactors {
  float rate;  // learning rate / (1 - beta1^t)
  float beta1;
  float beta2;
  float inverse_root_correction2;  // 1 / √(1 - beta2^t)
  float epsilon;
};

void UpdateSgd(float* w, const float* g, size_t n, float rate);
void UpdateMomentum(float* w, const float* g, float* velocity, size_t n, float rate, float momentum);
void UpdateAdagrad(float* w, const float* g, float* accumulator, size_t n, float rate, float epsilon);
void UpdateAdam(float* w, const float* g, float* moment1, float* moment2, size_t n,
                const AdamFactors& factors);

}  // namespace leat::optim
