// Tensors one behind the other along an axis.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// One or more f32 inputs that differ along `axis` at most; counted from the end when negative.
class Concat final : public Op {
 public:
  explicit Concat(int a) : axis(a) {}
  std::string_view kind() const override { return "concat"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "axis=" + std::to_string(axis); }

  const int axis;
};

}  // namespace leat::ops
