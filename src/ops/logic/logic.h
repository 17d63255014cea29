// Element-wise comparison, logic and selection.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Comparisons. Inputs: two tensors of the same type, f32 or integer. Output: u8 of their broadcast shape, 1
// where the comparison holds, else 0. NaN is unequal to everything, and neither less nor greater. No gradient
// flows.
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

// Input f32; output u8 of the same shape: 1 where the element is neither infinite nor NaN.
class IsFinite final : public Op {
 public:
  std::string_view kind() const override { return "is_finite"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Logic. Inputs: two u8 tensors, where any value but 0 is true. Output: u8 of their broadcast shape, 0 or 1.
// No gradient flows.
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

// Input: one u8 tensor.
class LogicalNot final : public Op {
 public:
  std::string_view kind() const override { return "logical_not"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs condition (u8), a, b (any one type). Output: a where the condition is not 0, else b; all three
// broadcast.
class Where final : public Op {
 public:
  std::string_view kind() const override { return "where"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
