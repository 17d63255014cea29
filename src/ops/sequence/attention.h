// Multi-head scaled dot-product attention (Vaswani et al. 2017), fused: neither the heads laid apart nor the
// scores of more than some queries at a time ever exist in memory.
#pragma once

#include "ops/op.h"

namespace leat::ops {

struct AttentionSettings {
  int64_t heads = 1;
  // A query sees no later key: counted from the end when keys are more than queries, so the last query sees
  // all.
  bool causal = false;
  // Queries from a row's length on are padding, too.
  bool mask_queries = false;
  friend bool operator==(const AttentionSettings&, const AttentionSettings&) = default;
};

// Inputs
//   f32 q[batch, queries, heads · d], k[batch, keys, heads · d], v like k; or one tensor
//   f32 qkv[batch, time, 3 · heads · d] that has them side by side, as one product makes them;
//   then, optional, i32 lengths[batch]: how many keys of a row count (below 0 is 0, and there are no more
//   than there are).
// Outputs, P being the softmax of q kᵀ / √d over the keys that a query sees:
//   y[batch, queries, heads · d] = P v,  l[batch, heads, queries] = log of the sum that P was divided by.
// A query that sees no key has y = 0 and l = 0.
class Attention final : public Op {
 public:
  explicit Attention(AttentionSettings s) : settings(s) {}
  std::string_view kind() const override { return "attention"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const AttentionSettings settings;
};

// Inputs as Attention's, then its y and l, and dy. Outputs dq, dk, dv, or dqkv.
class AttentionGrad final : public Op {
 public:
  explicit AttentionGrad(AttentionSettings s) : settings(s) {}
  std::string_view kind() const override { return "attention_grad"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const AttentionSettings settings;
};

// Sizes and input layout of an attention: what shape rules and kernels share.
struct AttentionShape {
  int64_t batch = 0, queries = 0, keys = 0, heads = 0;
  int64_t size = 0;      // of a head
  bool packed = false;   // one qkv in place of q, k, v
  bool lengths = false;  // the input after them
  AttentionSettings settings;

  size_t lengths_input() const { return packed ? 1 : 3; }
  // Inputs of Attention.
  size_t inputs() const { return lengths_input() + (lengths ? 1 : 0); }
  // Keys that a query of a row of that length sees: those before.
  int64_t Visible(int64_t query, int64_t length) const;
};
// Throws std::invalid_argument with the sizes that do not fit.
AttentionShape AttentionShapeOf(const AttentionSettings& settings, Types inputs);

}  // namespace leat::ops
