// The smaller and the larger of two, broadcast. NaN in either is NaN. Of equal ones the first gets the
// gradient.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class Minimum final : public BinaryOp {
 public:
  std::string_view kind() const override { return "minimum"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

class Maximum final : public BinaryOp {
 public:
  std::string_view kind() const override { return "maximum"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
