// Softmax and its logarithm along the last axis. The largest element is subtracted first, for numeric
// stability.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// f32 x[..., c] with c > 0.
struct Softmax final : Named<UnaryOp, "softmax"> {
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs y, dy. dx = y (dy - the sum of y dy along the last axis).
struct SoftmaxGrad final : Named<SameShapeOp, "softmax_grad"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// f32 x[..., c] with c > 0.
struct LogSoftmax final : Named<UnaryOp, "log_softmax"> {
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
