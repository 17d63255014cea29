// Exponentials, logarithms, the error function, sine and cosine, element by element.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// e to the x.
class Exp final : public UnaryOp {
 public:
  std::string_view kind() const override { return "exp"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// e^x - 1, accurate where x is small.
class Expm1 final : public UnaryOp {
 public:
  std::string_view kind() const override { return "expm1"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// The natural logarithm of x.
class Log final : public UnaryOp {
 public:
  std::string_view kind() const override { return "log"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// log(1 + x), accurate where x is small.
class Log1p final : public UnaryOp {
 public:
  std::string_view kind() const override { return "log1p"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// The error function of x: 2/√π ∫ e^-t² dt from 0 to x.
class Erf final : public UnaryOp {
 public:
  std::string_view kind() const override { return "erf"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Sine and cosine of x in radians.
class Sin final : public UnaryOp {
 public:
  std::string_view kind() const override { return "sin"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

class Cos final : public UnaryOp {
 public:
  std::string_view kind() const override { return "cos"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
