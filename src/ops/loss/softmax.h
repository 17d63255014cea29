// Softmax and its logarithm along the last axis. The largest element is subtracted first, for numeric
// stability.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// f32 x[..., c] with c > 0.
class Softmax final : public UnaryOp {
 public:
  std::string_view kind() const override { return "softmax"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs y, dy. dx = y (dy - the sum of y dy along the last axis).
class SoftmaxGrad final : public SameShapeOp {
 public:
  std::string_view kind() const override { return "softmax_grad"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// f32 x[..., c] with c > 0.
class LogSoftmax final : public UnaryOp {
 public:
  std::string_view kind() const override { return "log_softmax"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
