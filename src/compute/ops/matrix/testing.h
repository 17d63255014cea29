// Test cases of the ops of this family.
#pragma once

#include "compute/ops/ops.h"
#include "compute/ops/testing.h"

namespace leat::ops::cases {

inline void AddMatrixCases(OpCaseList& cases) {
  const SampleInput bias = F32({3});
  const auto bf16 = [](Shape shape) {
    return SampleInput{{DType::kBf16, shape}, -2, 2, SampleInput::Draw::kUniform};
  };
  cases.insert(
      cases.end(),
      {
          Case<MatMul>("matmul a b", {F32({4, 5}), F32({5, 3})}),
          Case<MatMul>("matmul aᵀ b", {F32({5, 4}), F32({5, 3})}, true, false),
          Case<MatMul>("matmul a bᵀ", {F32({4, 5}), F32({3, 5})}, false, true),
          Case<MatMul>("matmul aᵀ bᵀ", {F32({5, 4}), F32({3, 5})}, true, true),
          Case<BatchMatMul>("batch_matmul", {F32({2, 4, 5}), F32({2, 5, 3})}),
          Case<BatchMatMul>("batch_matmul aᵀ", {F32({2, 5, 4}), F32({2, 5, 3})}, true, false),
          Case<BatchMatMul>("batch_matmul bᵀ", {F32({2, 3, 4, 5}), F32({2, 3, 3, 5})}, false, true),
          Case<BatchMatMul>("batch_matmul aᵀ bᵀ", {F32({3, 5, 4}), F32({3, 3, 5})}, true, true),
          Case<BatchMatMul>("batch_matmul one b", {F32({3, 4, 5}), F32({5, 2})}),
          Case<BatchMatMul>("batch_matmul one a", {F32({4, 5}), F32({3, 5, 2})}),
          Case<BatchMatMul>("batch_matmul one b, aᵀ", {F32({3, 5, 4}), F32({2, 5})}, true, true),
          Case<BatchMatMul>("batch_matmul stretched", {F32({2, 1, 3, 2}), F32({3, 2, 4})}),
          Case<BatchMatMul>("batch_matmul matrices", {F32({4, 5}), F32({5, 3})}),
          Case<BatchMatMul>("batch_matmul of none", {F32({0, 4, 5}), F32({0, 5, 3})}),
          Derivatives(0, Case<MatMul>("matmul bf16", {bf16({4, 5}), bf16({5, 3})})),
          Derivatives(0, Case<MatMul>("matmul bf16 aᵀ bᵀ", {bf16({37, 20}), bf16({33, 37})}, true, true)),
          Derivatives(0, Case<Dense>("dense bf16", {bf16({4, 5}), bf16({5, 3}), bias}, false, false,
                                     Activation::kTanh)),
          Derivatives(0, Case<BatchMatMul>("batch_matmul bf16", {bf16({2, 3, 4, 5}), bf16({3, 5, 6})})),
          Case<BiasAdd>("bias_add", {F32({4, 3}), bias}),
          Case<BiasAdd>("bias_add 3-d", {F32({2, 4, 3}), bias}),
          Case<Dense>("dense", {F32({4, 5}), F32({5, 3}), bias}, false, false, Activation::kNone),
          Case<Dense>("dense sigmoid aᵀ", {F32({5, 4}), F32({5, 3}), bias}, true, false,
                      Activation::kSigmoid),
          Case<Dense>("dense tanh bᵀ", {F32({4, 5}), F32({3, 5}), bias}, false, true, Activation::kTanh),
          Case<Dense>("dense gelu", {F32({4, 5}), F32({5, 3}), bias}, false, false, Activation::kGelu),
          Case<Dense>("dense gelu tanh", {F32({4, 5}), F32({5, 3}), bias}, false, false,
                      Activation::kGeluTanh),
          // Inputs of one sign and a bias that outweighs them keep every sum away from the kink at 0.
          Case<Dense>("dense relu", {F32({4, 5}, 0.1f, 1), F32({5, 3}, 0.1f, 1), F32({3}, 0.5f, 1)}, false,
                      false, Activation::kRelu),
          Case<Dense>("dense relu off", {F32({4, 5}, 0.1f, 1), F32({5, 3}, -1, -0.1f), F32({3}, -1, -0.5f)},
                      false, false, Activation::kRelu),
      });
}

}  // namespace leat::ops::cases
