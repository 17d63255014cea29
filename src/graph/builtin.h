// The ops that the graph itself needs: its leaves, and the sum that gathers gradients.
#pragma once

#include <string>

#include "graph/graph.h"

namespace leat::graph {

// A tensor that is bound from outside before a plan runs: a batch's features, labels, weights.
class Placeholder final : public Op {
 public:
  explicit Placeholder(TensorType t) : type(std::move(t)) {}
  std::string_view kind() const override { return "placeholder"; }
  std::vector<TensorType> Infer(std::span<const TensorType> inputs) const override;

  const TensorType type;
};

// A tensor that is bound from outside and outlives a step: what is trained.
class Variable final : public Op {
 public:
  explicit Variable(TensorType t) : type(std::move(t)) {}
  std::string_view kind() const override { return "variable"; }
  std::vector<TensorType> Infer(std::span<const TensorType> inputs) const override;

  const TensorType type;
};

// A tensor known when the graph is built. Nobody writes to it afterwards.
class Constant final : public Op {
 public:
  explicit Constant(Tensor v) : value(std::move(v)) {}
  // f32, every element `fill`.
  Constant(const Shape& shape, float fill);
  // An f32 scalar.
  explicit Constant(float v) : Constant(Shape{}, v) {}
  std::string_view kind() const override { return "constant"; }
  std::vector<TensorType> Infer(std::span<const TensorType> inputs) const override;
  // The value when all elements are the same, the elements when there are few, otherwise a checksum.
  std::string attributes() const override;

  const Tensor value;
};

// The sum of one or more f32 tensors of one shape.
class AddN final : public Op {
 public:
  std::string_view kind() const override { return "add_n"; }
  std::vector<TensorType> Infer(std::span<const TensorType> inputs) const override;
  std::vector<std::optional<Value>> Gradient(
      Graph& graph, const Node& node, std::span<const std::optional<Value>> output_grads) const override;
  double flops(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
};

// Placeholders and variables: bound from outside, the same in no two places of a graph.
bool IsFeed(const Op& op);
// The tensor of a constant, or nullptr.
const Tensor* ConstantValue(const Op& op);

// Whether a plan has something to run for it: neither a feed nor a constant nor a view.
bool NeedsKernel(const Op& op);

// For shape rules: throws "takes 2 inputs, not 3".
void CheckInputCount(std::span<const TensorType> inputs, size_t count);
// Throws "input 1 is i32[4]; must be f32".
void CheckF32(std::span<const TensorType> inputs);
// The shortest text that reads back as the same float.
std::string ToString(float value);

}  // namespace leat::graph
