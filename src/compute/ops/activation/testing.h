// Test cases of the ops of this family.
#pragma once

#include "compute/ops/ops.h"
#include "compute/ops/testing.h"

namespace leat::ops::cases {

inline void AddActivationCases(OpCaseList& cases) {
  const Shape s{3, 5};
  cases.insert(cases.end(), {
                                Case<Relu>("relu", {AwayFromZero(s)}),
                                Case<ReluGrad>("relu_grad", {AwayFromZero(s), F32(s)}),
                                Case<Sigmoid>("sigmoid", {F32(s)}),
                                Case<Sigmoid>("sigmoid far out", {F32(s, -30, 30)}),
                                Case<SigmoidGrad>("sigmoid_grad", {F32(s, 0, 1), F32(s)}),
                                Case<Tanh>("tanh", {F32(s)}),
                                Case<TanhGrad>("tanh_grad", {F32(s, -1, 1), F32(s)}),
                                Case<Softplus>("softplus", {F32(s)}),
                                Case<Softplus>("softplus far out", {F32(s, -30, 30)}),
                                Case<Silu>("silu", {F32(s)}),
                                Case<Silu>("silu far out", {F32(s, -30, 30)}),
                                Case<SiluGrad>("silu_grad", {F32(s), F32(s)}),
                                Case<LeakyRelu>("leaky_relu", {AwayFromZero(s)}, 0.1f),
                                Case<LeakyReluGrad>("leaky_relu_grad", {AwayFromZero(s), F32(s)}, 0.1f),
                                Case<Elu>("elu", {AwayFromZero(s)}, 0.8f),
                                Case<EluGrad>("elu_grad", {AwayFromZero(s), F32(s)}, 0.8f),
                                Case<Clip>("clip inside", {F32(s)}, -3.0f, 2.5f),
                                Case<Clip>("clip", {AwayFromZero(s)}, -5.0f, 0.0f),
                                Case<ClipGrad>("clip_grad", {AwayFromZero(s), F32(s)}, 0.0f, 5.0f),
                                Case<Gelu>("gelu", {F32(s)}),
                                Case<Gelu>("gelu far out", {F32(s, -12, 12)}),
                                Case<Gelu>("gelu approximate", {F32(s)}, true),
                                Case<Gelu>("gelu approximate far out", {F32(s, -12, 12)}, true),
                                Case<GeluGrad>("gelu_grad", {F32(s), F32(s)}, false),
                                Case<GeluGrad>("gelu_grad approximate", {F32(s), F32(s)}, true),
                            });
}

}  // namespace leat::ops::cases
