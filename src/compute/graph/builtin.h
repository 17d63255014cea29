// The ops that the graph itself needs: its leaves, and the sum that accumulates gradients.
#pragma once

#include <optional>
#include <string>

#include "compute/graph/graph.h"

namespace leat::graph {

// A tensor that the caller binds before a plan runs: features, labels or example weights of a batch.
class Placeholder final : public Op {
 public:
  explicit Placeholder(TensorType t) : type(std::move(t)) {}
  std::string_view kind() const override { return "placeholder"; }
  std::vector<TensorType> Infer(std::span<const TensorType> inputs) const override;

  const TensorType type;
};

// A trained tensor: bound by the caller, and kept from step to step.
class Variable final : public Op {
 public:
  explicit Variable(TensorType t) : type(std::move(t)) {}
  std::string_view kind() const override { return "variable"; }
  std::vector<TensorType> Infer(std::span<const TensorType> inputs) const override;

  const TensorType type;
};

// A tensor known when the graph is built. Never written to afterwards.
class Constant final : public Op {
 public:
  explicit Constant(Tensor v) : value(std::move(v)) {}
  // f32, every element `fill`.
  Constant(const Shape& shape, float fill);
  // An f32 scalar.
  explicit Constant(float v) : Constant(Shape{}, v) {}
  std::string_view kind() const override { return "constant"; }
  std::vector<TensorType> Infer(std::span<const TensorType> inputs) const override;
  // The value if all elements are equal, all elements if there are few, otherwise a checksum.
  std::string attributes() const override;

  const Tensor value;
};

// The elementwise sum of one or more f32 tensors of the same shape.
class AddN final : public Op {
 public:
  std::string_view kind() const override { return "add_n"; }
  std::vector<TensorType> Infer(std::span<const TensorType> inputs) const override;
  std::vector<std::optional<Value>> Gradient(
      Graph& graph, const Node& node, std::span<const std::optional<Value>> output_grads) const override;
  double flops(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
};

// Whether the op is a Placeholder or Variable, which the caller binds. Two feeds are never equal.
bool IsFeed(const Op& op);
// The tensor of a Constant, nullptr for any other op.
const Tensor* ConstantValue(const Op& op);

// Whether a plan runs a kernel for the op: true unless it is a feed, a constant or a view.
bool NeedsKernel(const Op& op);

// Checks for Op::Infer. Throws std::invalid_argument: "takes 2 inputs, not 3".
void CheckInputCount(std::span<const TensorType> inputs, size_t count);
// Throws std::invalid_argument: "input 1 is i32[4]; must be f32". With `count`, their number is checked
// first.
void CheckTypes(std::span<const TensorType> inputs, DType type, std::optional<size_t> count = {});
inline void CheckF32(std::span<const TensorType> inputs, std::optional<size_t> count = {}) {
  CheckTypes(inputs, DType::kF32, count);
}
// The shortest decimal text that parses back to the same float.
std::string ToString(float value);

}  // namespace leat::graph
