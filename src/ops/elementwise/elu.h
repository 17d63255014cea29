// x where it is positive, alpha (e^x - 1) elsewhere (Clevert et al. 2015), and its gradient.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Elu final : public UnaryOp {
 public:
  explicit Elu(float a = 1) : alpha(a) {}
  std::string_view kind() const override { return "elu"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "alpha=" + graph::ToString(alpha); }

  const float alpha;
};

// Inputs x, dy. dx = dy where x > 0, else alpha e^x dy.
class EluGrad final : public SameShapeOp {
 public:
  explicit EluGrad(float a) : alpha(a) {}
  std::string_view kind() const override { return "elu_grad"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "alpha=" + graph::ToString(alpha); }

  const float alpha;
};

}  // namespace leat::ops
