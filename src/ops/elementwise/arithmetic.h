// Arithmetic, element by element.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// a + b, broadcast.
class Add final : public BinaryOp {
 public:
  std::string_view kind() const override { return "add"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// a - b, broadcast.
class Sub final : public BinaryOp {
 public:
  std::string_view kind() const override { return "sub"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// a * b, broadcast.
class Mul final : public BinaryOp {
 public:
  std::string_view kind() const override { return "mul"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// a / b, broadcast.
class Div final : public BinaryOp {
 public:
  std::string_view kind() const override { return "div"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// -x.
class Neg final : public UnaryOp {
 public:
  std::string_view kind() const override { return "neg"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// |x|; its gradient is sign(x) dy, 0 at 0.
class Abs final : public UnaryOp {
 public:
  std::string_view kind() const override { return "abs"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// -1, 0 or 1 as x is negative, zero or positive. No gradient flows through it.
class Sign final : public UnaryOp {
 public:
  std::string_view kind() const override { return "sign"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// factor · x + offset, with constants factor and offset.
class Scale final : public UnaryOp {
 public:
  explicit Scale(float f, float o = 0) : factor(f), offset(o) {}
  std::string_view kind() const override { return "scale"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const float factor;
  const float offset;
};

// x times x.
class Square final : public UnaryOp {
 public:
  std::string_view kind() const override { return "square"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// The square root of x. No gradient flows where x is 0: norms and standard deviations are square roots.
class Sqrt final : public UnaryOp {
 public:
  std::string_view kind() const override { return "sqrt"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// 1 / √x.
class Rsqrt final : public UnaryOp {
 public:
  std::string_view kind() const override { return "rsqrt"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// 1 / x.
class Reciprocal final : public UnaryOp {
 public:
  std::string_view kind() const override { return "reciprocal"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Powers.
//
// a^b, broadcast, as std::pow: NaN for a negative a unless b is a whole number. No gradient flows to b where
// a^b is 0.
class Pow final : public BinaryOp {
 public:
  std::string_view kind() const override { return "pow"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// x^exponent, with a constant exponent. For a root, an exponent between 0 and 1, no gradient flows where x is
// 0.
class Power final : public UnaryOp {
 public:
  explicit Power(float e) : exponent(e) {}
  std::string_view kind() const override { return "power"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "exponent=" + graph::ToString(exponent); }

  const float exponent;
};

// Rounding to a whole number. No gradient flows.
class RoundingOp : public UnaryOp {
 public:
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// The largest whole number <= x.
class Floor final : public RoundingOp {
 public:
  std::string_view kind() const override { return "floor"; }
};

// The smallest whole number >= x.
class Ceil final : public RoundingOp {
 public:
  std::string_view kind() const override { return "ceil"; }
};

// The nearest whole number; ties to even.
class Round final : public RoundingOp {
 public:
  std::string_view kind() const override { return "round"; }
};

// The minimum and maximum of two, broadcast. NaN if either is NaN. If both are equal, each gets half of the
// gradient.
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
