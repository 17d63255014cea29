// Ops of losses, and softmax.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Softmax and its logarithm along the last axis. The largest element is subtracted first, for numeric
// stability.

// f32 x[..., c] with c > 0.
class OfClasses : public UnaryOp {
 public:
  std::vector<TensorType> Infer(Types inputs) const override;
};

struct Softmax final : Named<OfClasses, "softmax"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs y, dy. dx = y (dy - the sum of y dy along the last axis).
struct SoftmaxGrad final : Named<SameShapeOp, "softmax_grad"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

struct LogSoftmax final : Named<OfClasses, "log_softmax"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Cross entropy of a softmax against class indices, and its gradient.

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

// Losses of a prediction, element by element.

// (prediction - target)². Inputs predictions, targets of the same shape.
struct SquaredError final : Named<SameShapeOp, "squared_error"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// |prediction - target|. Inputs predictions, targets of the same shape. No gradient flows where they are
// equal.
struct AbsoluteError final : Named<SameShapeOp, "absolute_error"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// ½ d² where |d| <= delta, else delta (|d| - ½ delta), with d = prediction - target (Huber 1964): a squared
// error whose gradient is limited to `delta`, against outliers.
// Inputs predictions, targets of the same shape. Infer throws std::invalid_argument unless delta > 0.
struct Huber final : Named<SameShapeOp, "huber"> {
  explicit Huber(float d = 1) : delta(d) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "delta=" + graph::ToString(delta); }

  const float delta;
};

// Cross entropy of a sigmoid. Inputs logits x, targets t in [0, 1] of the same shape. Computed as max(x, 0) -
// x t + log(1 + e^-|x|), which is numerically stable.
struct SigmoidCrossEntropy final : Named<SameShapeOp, "sigmoid_cross_entropy"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Weights normalised to the sum 1.

// w / Σ w over all elements; w itself if the sum is 0.
struct Shares final : Named<UnaryOp, "shares"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
