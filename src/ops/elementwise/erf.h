// The error function of x: 2/√π ∫ e^-t² dt from 0 to x.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Erf final : public UnaryOp {
 public:
  std::string_view kind() const override { return "erf"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
