// Test cases of the ops of this family.
#pragma once

#include "compute/ops/ops.h"
#include "compute/ops/testing.h"

namespace leat::ops::cases {

inline void AddLossCases(OpCaseList& cases) {
  const Shape s{4, 5};
  const SampleInput labels = Integers(DType::kF32, {4}, 0, 4);
  const SampleInput bad_labels = Integers(DType::kF32, {4}, -3, 8);
  cases.insert(
      cases.end(),
      {
          Case<Softmax>("softmax", {F32(s)}),
          Case<SoftmaxGrad>("softmax_grad", {F32(s, 0, 1), F32(s)}),
          Case<LogSoftmax>("log_softmax", {F32(s)}),
          Case<SoftmaxCrossEntropy>("softmax_cross_entropy", {F32(s), labels}),
          Case<SoftmaxCrossEntropy>("softmax_cross_entropy bad labels", {F32(s), bad_labels}),
          Case<SoftmaxCrossEntropyGrad>("softmax_cross_entropy_grad", {F32(s, 0, 1), labels, F32({4})}),
          Case<SoftmaxCrossEntropyGrad>("softmax_cross_entropy_grad bad labels",
                                        {F32(s, 0, 1), bad_labels, F32({4})}),
          Case<SigmoidCrossEntropy>("sigmoid_cross_entropy", {AwayFromZero(s), F32(s, 0, 1)}),
          Case<SigmoidCrossEntropy>("sigmoid_cross_entropy far out", {F32(s, 20, 40), F32(s, 0, 1)}),
          Case<SquaredError>("squared_error", {F32(s), F32(s)}),
          Case<AbsoluteError>("absolute_error", {F32(s, 2, 4), F32(s, -1, 1)}),
          Case<Huber>("huber near", {F32(s, 0, 1), F32(s, 0, 1)}, 1.5f),
          Case<Huber>("huber far", {F32(s, 3, 4), F32(s, 0, 1)}, 1.5f),
          Case<Shares>("shares", {F32({6}, 0.5f, 2)}),
          Derivatives(0, Case<Shares>("shares of nothing", {F32({6}, 0, 0)})),
      });
}

}  // namespace leat::ops::cases
