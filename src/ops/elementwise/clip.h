// x held between two limits, and its gradient.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// NaN stays NaN. Throws std::invalid_argument unless low <= high.
class Clip final : public UnaryOp {
 public:
  Clip(float l, float h) : low(l), high(h) {}
  std::string_view kind() const override { return "clip"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override {
    return "low=" + graph::ToString(low) + " high=" + graph::ToString(high);
  }

  const float low;
  const float high;
};

// Inputs x, dy. dx = dy where low <= x <= high, else 0.
class ClipGrad final : public SameShapeOp {
 public:
  ClipGrad(float l, float h) : low(l), high(h) {}
  std::string_view kind() const override { return "clip_grad"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override {
    return "low=" + graph::ToString(low) + " high=" + graph::ToString(high);
  }

  const float low;
  const float high;
};

// alpha · x + beta held between 0 and 1: a sigmoid of straight lines.
Value HardSigmoid(Graph& graph, Value x, float alpha = 0.2f, float beta = 0.5f);
// x HardSigmoid(x, 1/6, 1/2) (Howard et al. 2019).
Value HardSwish(Graph& graph, Value x);

}  // namespace leat::ops
