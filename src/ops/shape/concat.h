// Tensors one behind the other along an axis.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// One or more inputs of one type that differ along `axis` at most; counted from the end when negative.
class Concat final : public Op {
 public:
  explicit Concat(int a) : axis(a) {}
  std::string_view kind() const override { return "concat"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "axis=" + std::to_string(axis); }

  const int axis;
};

// Tensors of one shape side by side along a new axis, which the result has as its axis `axis`.
Value Stack(Graph& graph, std::span<const Value> values, int axis);

}  // namespace leat::ops
