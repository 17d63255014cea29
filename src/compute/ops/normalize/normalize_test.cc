// Shape rules of normalisation, dropout, attention and batched products, and the randomness of dropout.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "compute/ops/ops.h"
#include "compute/ops/testing.h"

namespace leat::ops {
namespace {

TEST(ShapeRules, OfNormalisationNameTheSizes) {
  const TensorType x = F32({4, 3}), c = F32({3}), w = F32({4});
  EXPECT_EQ(Refusal(LayerNorm(), {F32({}), c, c}), "x[] has no elements along its last axis");
  EXPECT_EQ(Refusal(LayerNorm(), {x, F32({4}), c}),
            "scale[4] must be [3], as long as the last axis of x[4, 3]");
  EXPECT_EQ(Refusal(LayerNorm(0), {x, c, c}), "epsilon=0; must be above 0");
  EXPECT_EQ(Refusal(LayerNormGrad(), {x, c, w, F32({3}), x}), "input 3 is f32[3]; must be f32[4]");
  EXPECT_EQ(Refusal(BatchNorm(), {F32({3}), c, c, F32({3})}), "x[3] must be [batch, ..., channels]");
  EXPECT_EQ(Refusal(BatchNorm(), {x, c, c, c}), "weights[3] must have one element per row of x[4, 3]");
  EXPECT_EQ(Refusal(BatchNorm(), {x, c, w, w}), "[4] must be [3], one element per channel of x[4, 3]");
  EXPECT_EQ(Refusal(BatchNormGrad(1e-5f), {x, c, w, c, c, c}), "dy[3] must be like x[4, 3]");
  EXPECT_EQ(Refusal(Dropout(0.5f, 1), {x, c}), "random_seed is f32[3]; must be i64[]");
  EXPECT_EQ(Refusal(Dropout(1, 1), {x, {DType::kI64, {}}}), "rate=1; must be at least 0 and below 1");
  EXPECT_EQ(Refusal(Dropout(std::nanf(""), 1), {x, {DType::kI64, {}}}),
            "rate=nan; must be at least 0 and below 1");
}

TEST(ShapeRules, OfAttentionNameTheSizes) {
  const Attention plain({.heads = 2}), causal({.heads = 2, .causal = true});
  const TensorType q = F32({2, 3, 4}), k = F32({2, 5, 4}), lengths{DType::kI32, {2}};
  EXPECT_EQ(Refusal(plain, {q, k, k, lengths}), "accepted");
  EXPECT_EQ(Refusal(plain, {}), "takes qkv or q, k, v, and optionally lengths; got 0 inputs");
  EXPECT_EQ(Refusal(plain, {q}), "qkv[2, 3, 4]: the channels cannot be divided into q, k and v of 2 heads");
  EXPECT_EQ(Refusal(Attention({.heads = 0}), {q, k, k}),
            "q[2, 3, 4] k[2, 5, 4]: the channels cannot be divided into 0 heads");
  EXPECT_EQ(Refusal(plain, {F32({2, 4}), k, k}), "q[2, 4] k[2, 5, 4]: must be [batch, time, channels]");
  EXPECT_EQ(Refusal(plain, {q, F32({1, 5, 4}), k}),
            "q[2, 3, 4] k[1, 5, 4]: batch and channels must be the same");
  EXPECT_EQ(Refusal(plain, {q, k, q}), "k[2, 5, 4] v[2, 3, 4] differ");
  EXPECT_EQ(Refusal(causal, {k, q, q}),
            "q[2, 5, 4] k[2, 3, 4]: a causal attention cannot have more queries than keys");
  EXPECT_EQ(Refusal(plain, {q, k, k, {DType::kI32, {3}}}), "lengths are i32[3]; must be i32[2]");
  EXPECT_EQ(Refusal(Attention({.heads = 2, .mask_queries = true}), {q, k, k, lengths}),
            "q[2, 3, 4] k[2, 5, 4]: mask_queries needs as many queries as keys");
  EXPECT_EQ(Refusal(Attention({.heads = 2, .mask_queries = true}), {k, k, k}), "mask_queries needs lengths");
  EXPECT_EQ(Refusal(AttentionGrad({.heads = 2}), {q, k, k, q, q, q}),
            "input 4 is f32[2, 3, 4]; must be f32[2, 2, 3]");
  EXPECT_EQ(Refusal(AttentionGrad({.heads = 2}), {q, k, k}),
            "takes an attention's inputs, its two outputs and dy");
}

TEST(ShapeRules, OfBatchedProductsNameTheSizes) {
  EXPECT_EQ(Refusal(BatchMatMul(), {F32({2, 4, 5}), F32({3, 5, 6})}),
            "a[2] and b[3] do not broadcast: sizes 2 and 3 differ");
  EXPECT_EQ(Refusal(BatchMatMul(), {F32({2, 4, 5}), F32({2, 4, 6})}),
            "a[4, 5] x b[4, 6]: inner sizes 5 and 4 differ");
  EXPECT_EQ(Refusal(BatchMatMul(), {F32({5}), F32({5, 6})}), "a[5] x b[5, 6]: both need at least two axes");
}

TEST(DropoutMask, DropsTheShareAndMixesWell) {
  for (const float rate : {0.0f, 0.1f, 0.5f, 0.9f}) {
    const DropoutMask mask(Dropout(rate, 3), 17);
    const auto keys = mask.KeysOf(0);
    constexpr uint32_t kCount = 1 << 20;
    double dropped = 0, pairs = 0;
    for (uint32_t i = 0; i < kCount; ++i) {
      const bool here = DropoutMask::Bits(i, keys) < mask.threshold();
      const bool next = DropoutMask::Bits(i + 1, keys) < mask.threshold();
      dropped += here;
      pairs += here && next;
    }
    // Within five standard deviations; neighbours are independent.
    const double p = static_cast<double>(rate);
    EXPECT_NEAR(dropped / kCount, p, 5 * std::sqrt(p * (1 - p) / kCount)) << rate;
    EXPECT_NEAR(pairs / kCount, p * p, 0.004) << rate;
    EXPECT_NEAR(static_cast<double>(mask.factor()), 1 / (1 - p), 1e-5);
  }
}

}  // namespace
}  // namespace leat::ops
