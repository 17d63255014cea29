// Logic on u8: what is not 0 counts as true, and true comes out as 1. No gradient flows.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Two u8 tensors in, u8 of their broadcast shape out.
class LogicalOp : public Op {
 public:
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

class LogicalAnd final : public LogicalOp {
 public:
  std::string_view kind() const override { return "logical_and"; }
};

class LogicalOr final : public LogicalOp {
 public:
  std::string_view kind() const override { return "logical_or"; }
};

class LogicalXor final : public LogicalOp {
 public:
  std::string_view kind() const override { return "logical_xor"; }
};

// One u8 tensor in.
class LogicalNot final : public Op {
 public:
  std::string_view kind() const override { return "logical_not"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
