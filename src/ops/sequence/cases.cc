#include "ops/cases.h"
#include "ops/ops.h"

namespace leat::ops {
namespace {

void AddAttentionCases(OpCaseList& cases) {
  const SampleInput qkv = F32({2, 4, 18}, -1, 1), q = F32({2, 3, 4}, -1, 1), k = F32({2, 5, 4}, -1, 1);
  // A length below 0, and one beyond the keys.
  const SampleInput lengths = Integers(DType::kI32, {2}, -1, 6);
  const AttentionSettings plain{.heads = 2}, causal{.heads = 2, .causal = true};
  const AttentionSettings masked{.heads = 2, .causal = true, .mask_queries = true};
  const SampleInput qkv_y = F32({2, 4, 6}, -1, 1), q_y = F32({2, 3, 4}, -1, 1);
  const SampleInput qkv_l = F32({2, 2, 4}, 1, 2), q_l = F32({2, 2, 3}, 1, 2);
  cases.insert(
      cases.end(),
      {
          Case<Attention>("attention", {qkv}, plain),
          Case<Attention>("attention causal", {qkv}, causal),
          Case<Attention>("attention lengths", {qkv, lengths}, plain),
          Case<Attention>("attention masked", {qkv, lengths}, masked),
          Case<Attention>("attention q k v", {q, k, k}, plain),
          Case<Attention>("attention q k v causal", {q, k, k}, causal),
          Case<Attention>("attention q k v lengths", {q, k, k, lengths}, causal),
          Case<Attention>("attention one head", {F32({1, 3, 15}, -1, 1)}, AttentionSettings{}),
          Case<AttentionGrad>("attention_grad", {qkv, qkv_y, qkv_l, qkv_y}, plain),
          Case<AttentionGrad>("attention_grad masked", {qkv, lengths, qkv_y, qkv_l, qkv_y}, masked),
          Case<AttentionGrad>("attention_grad q k v", {q, k, k, q_y, q_l, q_y}, causal),
          Case<AttentionGrad>("attention_grad q k v lengths", {q, k, k, lengths, q_y, q_l, q_y}, plain),
      });
}

}  // namespace

void AddSequenceCases(OpCaseList& cases) {
  AddAttentionCases(cases);
}

}  // namespace leat::ops
