// Losses of a prediction, element by element.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

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

}  // namespace leat::ops
