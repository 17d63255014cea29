// One of two, element by element.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Inputs condition (u8), a, b: a where the condition is not 0, else b, broadcast among the three. a and b are
// of one type, whichever.
class Where final : public Op {
 public:
  std::string_view kind() const override { return "where"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
