// Cross entropy of a softmax against class indices, and its gradient.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Inputs logits[b, c], labels[b]: f32 holding class indices (fractions are truncated).
// Outputs loss[b] = -log softmax(logits)[label], probabilities[b, c] = softmax(logits), a by-product. A label
// outside [0, c), or NaN, makes the row's loss and gradient 0; kernels must not use it as an index.
struct SoftmaxCrossEntropy final : Named<Op, "softmax_cross_entropy"> {
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs probabilities[b, c], labels[b], dloss[b]; output dlogits = (probabilities - onehot(label)) dloss by
// row, zero where the label is not in [0, c).
struct SoftmaxCrossEntropyGrad final : Named<Op, "softmax_cross_entropy_grad"> {
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// The class index of a label, -1 if it is outside [0, classes).
inline int64_t ClassOf(float label, int64_t classes) {
  return label >= 0 && label < static_cast<float>(classes) ? static_cast<int64_t>(label) : -1;
}

}  // namespace leat::ops
