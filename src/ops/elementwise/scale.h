// factor · x + offset, both known when the graph is built.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Scale final : public UnaryOp {
 public:
  explicit Scale(float f, float o = 0) : factor(f), offset(o) {}
  std::string_view kind() const override { return "scale"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const float factor;
  const float offset;
};

}  // namespace leat::ops
