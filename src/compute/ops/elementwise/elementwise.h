// Ops on each element: arithmetic, functions of one number, comparison, logic and choice, conversion between
// element types.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Arithmetic, element by element.

// a + b, broadcast.
struct Add final : Named<BinaryOp, "add"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// a - b, broadcast.
struct Sub final : Named<BinaryOp, "sub"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// a * b, broadcast.
struct Mul final : Named<BinaryOp, "mul"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// a / b, broadcast.
struct Div final : Named<BinaryOp, "div"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// -x.
struct Neg final : Named<UnaryOp, "neg"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// |x|; its gradient is sign(x) dy, 0 at 0.
struct Abs final : Named<UnaryOp, "abs"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// -1, 0 or 1 as x is negative, zero or positive. No gradient flows through it.
using Sign = Named<WithoutGradient<UnaryOp>, "sign">;

// factor · x + offset, with constants factor and offset.
struct Scale final : Named<UnaryOp, "scale"> {
  explicit Scale(float f, float o = 0) : factor(f), offset(o) {}
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const float factor;
  const float offset;
};

// x times x.
struct Square final : Named<UnaryOp, "square"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// The square root of x. No gradient flows where x is 0: norms and standard deviations are square roots.
struct Sqrt final : Named<UnaryOp, "sqrt"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// 1 / √x.
struct Rsqrt final : Named<UnaryOp, "rsqrt"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// 1 / x.
struct Reciprocal final : Named<UnaryOp, "reciprocal"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Powers.
//
// a^b, broadcast, as std::pow: NaN for a negative a unless b is a whole number. No gradient flows to b where
// a^b is 0.
struct Pow final : Named<BinaryOp, "pow"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// x^exponent, with a constant exponent. For a root, an exponent between 0 and 1, no gradient flows where x is
// 0.
struct Power final : Named<UnaryOp, "power"> {
  explicit Power(float e) : exponent(e) {}
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "exponent=" + graph::ToString(exponent); }

  const float exponent;
};

// Rounding to a whole number. No gradient flows.
//
// The largest whole number <= x.
using Floor = Named<WithoutGradient<UnaryOp>, "floor">;

// The smallest whole number >= x.
using Ceil = Named<WithoutGradient<UnaryOp>, "ceil">;

// The nearest whole number; ties to even.
using Round = Named<WithoutGradient<UnaryOp>, "round">;

// The minimum and maximum of two, broadcast. NaN if either is NaN. If both are equal, each gets half of the
// gradient.
struct Minimum final : Named<BinaryOp, "minimum"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

struct Maximum final : Named<BinaryOp, "maximum"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Exponentials, logarithms, the error function, sine and cosine, element by element.

// e to the x.
struct Exp final : Named<UnaryOp, "exp"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// e^x - 1, accurate where x is small.
struct Expm1 final : Named<UnaryOp, "expm1"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// The natural logarithm of x.
struct Log final : Named<UnaryOp, "log"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// log(1 + x), accurate where x is small.
struct Log1p final : Named<UnaryOp, "log1p"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// The error function of x: 2/√π ∫ e^-t² dt from 0 to x.
struct Erf final : Named<UnaryOp, "erf"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Sine and cosine of x in radians.
struct Sin final : Named<UnaryOp, "sin"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

struct Cos final : Named<UnaryOp, "cos"> {
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Conversion between element types.

// Converts any type to any other. Conversions to f32 and bf16 round to nearest. Conversions to integers
// truncate towards zero and clamp to the range; NaN becomes 0. No gradient flows.
struct Cast final : Named<WithoutGradient<Op>, "cast"> {
  explicit Cast(DType t = DType::kF32) : to(t) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  std::string attributes() const override;

  const DType to;
};

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
