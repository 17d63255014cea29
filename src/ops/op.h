// What the headers of this folder share: short names, and the two commonest shapes of an op.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builtin.h"
#include "graph/graph.h"

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
// A gradient of the loss by each output, or by each input; empty where none flows.
using OutputGrads = std::span<const std::optional<Value>>;
using InputGrads = std::vector<std::optional<Value>>;

// One f32 tensor in, one of the same shape out.
class UnaryOp : public Op {
 public:
  std::vector<TensorType> Infer(Types inputs) const override;
};

// Two f32 tensors in, one of their broadcast shape out.
class BinaryOp : public Op {
 public:
  std::vector<TensorType> Infer(Types inputs) const override;
};

// Two f32 tensors of the same shape in, one of that shape out: how the gradients of element-wise ops look.
class SameShapeOp : public Op {
 public:
  std::vector<TensorType> Infer(Types inputs) const override;
};

}  // namespace leat::ops
