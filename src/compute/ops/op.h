// Shared by the headers of this folder: short names, and base classes for the commonest shape rules.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compute/graph/builtin.h"
#include "compute/graph/graph.h"

namespace leat::ops {

using graph::AddN;
using graph::Constant;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Placeholder;
using graph::Value;
using graph::Variable;

using Types = std::span<const TensorType>;
// Gradients of the loss with respect to each output or input; empty where none flows.
using OutputGrads = std::span<const std::optional<Value>>;
using InputGrads = std::vector<std::optional<Value>>;

// Characters of a literal, as a parameter of a template.
template <size_t n>
struct Literal {
  constexpr Literal(const char (&literal)[n]) { std::ranges::copy(literal, text); }  // NOLINT: implicit
  char text[n];
};

// `Base` as the op of a kind.
template <class Base, Literal kKind>
struct Named : Base {
  using Base::Base;
  std::string_view kind() const override { return kKind.text; }
};

// `Base` as an op that no gradient flows through.
template <class Base>
struct WithoutGradient : Base {
  using Base::Base;
  InputGrads Gradient(Graph&, const Node& node, OutputGrads) const override {
    return InputGrads(node.inputs.size());
  }
};

// An op with one f32 input; the output has the same shape.
class UnaryOp : public Op {
 public:
  std::vector<TensorType> Infer(Types inputs) const override;
};

// An op with two f32 inputs; the output has their broadcast shape.
class BinaryOp : public Op {
 public:
  std::vector<TensorType> Infer(Types inputs) const override;
};

// An op with two f32 inputs of the same shape, which is also the output's. For gradients of element-wise ops.
class SameShapeOp : public Op {
 public:
  std::vector<TensorType> Infer(Types inputs) const override;
};

// Derivatives of a fused op through the plain ops that it replaces.
//
// A fused op has its own gradient op for ordinary training. For all other derivatives (second derivatives,
// and gradients with respect to auxiliary outputs) it is rewritten in plain ops, which are then
// differentiated.

// Adds plain ops that compute the outputs of the op from `inputs`, which have the types of the node's inputs.
using Composition = std::function<std::vector<Value>(Graph& graph, const std::vector<Value>& inputs)>;

// An implementation of Op::Gradient for an op equivalent to `compose`: a gradient for each f32 input.
InputGrads ComposedGradient(Graph& graph, const Node& node, OutputGrads output_grads,
                            const Composition& compose);

}  // namespace leat::ops
