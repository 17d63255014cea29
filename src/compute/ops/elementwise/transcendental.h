// Exponentials, logarithms, the error function, sine and cosine, element by element.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

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

}  // namespace leat::ops
