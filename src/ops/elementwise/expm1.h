// e^x - 1, accurate where x is small.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Expm1 final : public UnaryOp {
 public:
  std::string_view kind() const override { return "expm1"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
