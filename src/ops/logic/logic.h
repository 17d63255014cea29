// Comparisons, logic and choice, element by element.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Comparisons: 1 where one holds, else 0. NaN is unequal to everything, and neither less nor greater.
//
// Two tensors of one type, f32 or whole numbers, in; u8 of their broadcast shape out. No gradient flows.
class CompareOp : public Op {
 public:
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

class Equal final : public CompareOp {
 public:
  std::string_view kind() const override { return "equal"; }
};

class NotEqual final : public CompareOp {
 public:
  std::string_view kind() const override { return "not_equal"; }
};

class Less final : public CompareOp {
 public:
  std::string_view kind() const override { return "less"; }
};

class LessEqual final : public CompareOp {
 public:
  std::string_view kind() const override { return "less_equal"; }
};

class Greater final : public CompareOp {
 public:
  std::string_view kind() const override { return "greater"; }
};

class GreaterEqual final : public CompareOp {
 public:
  std::string_view kind() const override { return "greater_equal"; }
};

// One f32 tensor in, u8 of its shape out: 1 where an element is neither infinite nor NaN.
class IsFinite final : public Op {
 public:
  std::string_view kind() const override { return "is_finite"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Logic on u8: what is not 0 counts as true, and true comes out as 1. No gradient flows.
//
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

// One of two, element by element.
//
// Inputs condition (u8), a, b: a where the condition is not 0, else b, broadcast among the three. a and b are
// of one type, whichever.
class Where final : public Op {
 public:
  std::string_view kind() const override { return "where"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
