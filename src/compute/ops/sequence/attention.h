// Fused multi-head scaled dot-product attention (Vaswani et al. 2017). It never materialises split heads, nor
// the scores of more than a few queries at a time.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

struct AttentionSettings {
  int64_t heads = 1;
  // A query attends to no later key. If there are more keys than queries, positions are aligned at the end,
  // so the last query attends to all keys.
  bool causal = false;
  // The lengths also apply to queries: later queries are padding.
  bool mask_queries = false;
  friend bool operator==(const AttentionSettings&, const AttentionSettings&) = default;
};

class AttentionOp : public Op {
 public:
  explicit AttentionOp(AttentionSettings s) : settings(s) {}
  std::string attributes() const override;

  const AttentionSettings settings;
};

// Inputs
//   f32 q[batch, queries, heads · d], k[batch, keys, heads · d], v like k; or one tensor
//   f32 qkv[batch, time, 3 · heads · d] with the three concatenated, as one product computes them;
//   then, optional, i32 lengths[batch]: the number of valid keys of each row, clamped to [0, keys].
// Outputs, with P = softmax of q kᵀ / √d over the visible keys:
//   y[batch, queries, heads · d] = P v,  l[batch, heads, queries] = log of the softmax denominator.
// A query without visible keys has y = 0 and l = 0.
struct Attention final : Named<AttentionOp, "attention"> {
  using Named::Named;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  double flops(Types inputs, Types outputs) const override;
};

// Inputs: those of Attention, its outputs y and l, and dy. Outputs dq, dk, dv, or dqkv.
struct AttentionGrad final : Named<AttentionOp, "attention_grad"> {
  using Named::Named;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  double flops(Types inputs, Types outputs) const override;
};

// Sizes and input layout of an attention, shared by shape rules and kernels.
struct AttentionShape {
  int64_t batch = 0, queries = 0, keys = 0, heads = 0;
  int64_t size = 0;      // channels per head
  bool packed = false;   // single input qkv instead of q, k, v
  bool lengths = false;  // there is an input of lengths
  AttentionSettings settings;

  size_t lengths_input() const { return packed ? 1 : 3; }
  // Number of inputs of Attention.
  size_t inputs() const { return lengths_input() + (lengths ? 1 : 0); }
  // Number of keys that a query attends to, in a row of this length: always the first ones.
  int64_t Visible(int64_t query, int64_t length) const;
};
// Throws std::invalid_argument with the sizes that do not match.
AttentionShape AttentionShapeOf(const AttentionSettings& settings, Types inputs);

}  // namespace leat::ops
