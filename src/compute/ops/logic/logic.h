// Element-wise comparison, logic and selection.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Comparisons. Inputs: two tensors of the same type, f32 or integer. Output: u8 of their broadcast shape, 1
// where the comparison holds, else 0. NaN is unequal to everything, and neither less nor greater. No gradient
// flows.
class CompareOp : public WithoutGradient<Op> {
 public:
  std::vector<TensorType> Infer(Types inputs) const override;
};

using Equal = Named<CompareOp, "equal">;
using NotEqual = Named<CompareOp, "not_equal">;
using Less = Named<CompareOp, "less">;
using LessEqual = Named<CompareOp, "less_equal">;
using Greater = Named<CompareOp, "greater">;
using GreaterEqual = Named<CompareOp, "greater_equal">;

// Input f32; output u8 of the same shape: 1 where the element is neither infinite nor NaN.
struct IsFinite final : Named<WithoutGradient<Op>, "is_finite"> {
  std::vector<TensorType> Infer(Types inputs) const override;
};

// Logic. Inputs: two u8 tensors, where any value but 0 is true. Output: u8 of their broadcast shape, 0 or 1.
// No gradient flows.
class LogicalOp : public WithoutGradient<Op> {
 public:
  std::vector<TensorType> Infer(Types inputs) const override;
};

using LogicalAnd = Named<LogicalOp, "logical_and">;
using LogicalOr = Named<LogicalOp, "logical_or">;
using LogicalXor = Named<LogicalOp, "logical_xor">;

// Input: one u8 tensor.
struct LogicalNot final : Named<WithoutGradient<Op>, "logical_not"> {
  std::vector<TensorType> Infer(Types inputs) const override;
};

// Inputs condition (u8), a, b (any one type). Output: a where the condition is not 0, else b; all three
// broadcast.
struct Where final : Named<Op, "where"> {
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
