// Whole numbers near x. No gradient flows through them.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class RoundingOp : public UnaryOp {
 public:
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// The largest that is not above x.
class Floor final : public RoundingOp {
 public:
  std::string_view kind() const override { return "floor"; }
};

// The smallest that is not below x.
class Ceil final : public RoundingOp {
 public:
  std::string_view kind() const override { return "ceil"; }
};

// The nearest; of two the even one.
class Round final : public RoundingOp {
 public:
  std::string_view kind() const override { return "round"; }
};

}  // namespace leat::ops
