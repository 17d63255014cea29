// Powers.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// a to the b, broadcast: as std::pow, so NaN for a negative a unless b is a whole number. By b no gradient
// flows where a^b is 0.
class Pow final : public BinaryOp {
 public:
  std::string_view kind() const override { return "pow"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// x to an exponent that is known when the graph is built.
class Power final : public UnaryOp {
 public:
  explicit Power(float e) : exponent(e) {}
  std::string_view kind() const override { return "power"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "exponent=" + graph::ToString(exponent); }

  const float exponent;
};

}  // namespace leat::ops
