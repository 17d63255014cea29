// ½ d² where |d| <= delta, else delta (|d| - ½ delta), with d = prediction - target (Huber 1964): a squared
// error whose gradient is limited to `delta`, against outliers.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Inputs predictions, targets of the same shape. Infer throws std::invalid_argument unless delta > 0.
struct Huber final : Named<SameShapeOp, "huber"> {
  explicit Huber(float d = 1) : delta(d) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "delta=" + graph::ToString(delta); }

  const float delta;
};

}  // namespace leat::ops
