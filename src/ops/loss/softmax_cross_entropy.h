// Cross entropy of a softmax against class indices, and its gradient.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Inputs logits[b, c], labels[b]: f32 holding class indices (a fraction is cut off).
// Outputs loss[b] = -log softmax(logits)[label], probabilities[b, c] = softmax(logits), which costs nothing
// extra. A label that is not in [0, c), NaN among them, makes the row's loss 0 and its gradient zero; no
// kernel may read by it.
class SoftmaxCrossEntropy final : public Op {
 public:
  std::string_view kind() const override { return "softmax_cross_entropy"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs probabilities[b, c], labels[b], dloss[b]; output dlogits = (probabilities - onehot(label)) dloss by
// row, zero where the label is not in [0, c).
class SoftmaxCrossEntropyGrad final : public Op {
 public:
  std::string_view kind() const override { return "softmax_cross_entropy_grad"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// The class that a label names, or -1 when it is not in [0, classes).
inline int64_t ClassOf(float label, int64_t classes) {
  return label >= 0 && label < static_cast<float>(classes) ? static_cast<int64_t>(label) : -1;
}

}  // namespace leat::ops
