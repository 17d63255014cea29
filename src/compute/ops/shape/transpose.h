// Permutes axes.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// Axis i of the output is axis permutation[i] of the input, which may be of any type.
struct Transpose final : Named<Op, "transpose"> {
  explicit Transpose(std::vector<int> p) : permutation(std::move(p)) {}
  // Transposes a matrix.
  Transpose() : Transpose({1, 0}) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const std::vector<int> permutation;
};

}  // namespace leat::ops
