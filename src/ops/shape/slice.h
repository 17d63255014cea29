// A box cut out of a tensor, and a tensor set into a box of zeros: each the gradient of the other.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Elements [begin[i], begin[i] + size[i]) of each axis i.
class Slice final : public Op {
 public:
  Slice(std::vector<int64_t> b, std::vector<int64_t> s) : begin(std::move(b)), size(std::move(s)) {}
  std::string_view kind() const override { return "slice"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const std::vector<int64_t> begin;
  const std::vector<int64_t> size;
};

// before[i] zeros in front of axis i and after[i] behind it.
class Pad final : public Op {
 public:
  Pad(std::vector<int64_t> b, std::vector<int64_t> a) : before(std::move(b)), after(std::move(a)) {}
  std::string_view kind() const override { return "pad"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const std::vector<int64_t> before;
  const std::vector<int64_t> after;
};

}  // namespace leat::ops
