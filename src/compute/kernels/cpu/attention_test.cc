// Attention, normalisation and dropout of random sizes against the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "compute/kernels/cpu/table.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/ops.h"
#include "compute/ops/testing.h"

namespace leat::cpu {
namespace {

using Tensors = std::vector<Tensor>;

// Outputs and scratch memory are filled with NaN before a kernel runs.
constexpr int kGarbage = 0xff;

Tensors RunAttention(const graph::KernelTable& table, const graph::Op& op, const Tensors& inputs) {
  std::vector<TensorType> types;
  for (const auto& t : inputs) types.push_back(t.type());
  const auto out_types = op.Infer(types);
  const auto kernel = table.factories.at(op.kind())({op, types, out_types, 1});
  Tensors outputs;
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (const auto& t : inputs) in.push_back(t.raw());
  for (const auto& type : out_types) {
    outputs.emplace_back(type);
    out.push_back(outputs.back().raw());
    if (type.bytes() > 0) std::memset(out.back(), kGarbage, type.bytes());
  }
  const Buffer scratch(kernel->scratch_bytes());
  if (kernel->scratch_bytes() > 0) std::memset(scratch.data(), kGarbage, kernel->scratch_bytes());
  kernel->Run({in, out, scratch.data()});
  return outputs;
}

void ExpectSameAttention(const graph::Op& op, const Tensors& inputs, float tolerance = 1e-5f) {
  const Tensors actual = RunAttention(Table(), op, inputs);
  const Tensors expected = RunAttention(reference::Kernels(), op, inputs);
  for (size_t t = 0; t < expected.size(); ++t) {
    const auto a = actual[t].as<float>(), e = expected[t].as<float>();
    for (size_t i = 0; i < e.size(); ++i) {
      ASSERT_NEAR(a[i], e[i], tolerance * (1 + std::abs(e[i])))
          << op.kind() << " " << op.attributes() << " of " << inputs[0].type().ToString() << " output " << t
          << "[" << i << "]";
    }
  }
}

Tensor DrawUnit(Shape shape, uint64_t seed, float low = -1, float high = 1) {
  return ops::DrawSample({{DType::kF32, shape}, low, high, ops::SampleInput::Draw::kUniform}, seed);
}

Tensor DrawIntegers(DType type, Shape shape, uint64_t seed, float low, float high) {
  return ops::DrawSample({{type, shape}, low, high, ops::SampleInput::Draw::kInteger}, seed);
}

TEST(AttentionKernels, RandomSizes) {
  Rng rng(5);
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(rng.Below(n)); };
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const int64_t batch = below(4), heads = 1 + below(3), width = heads * (1 + below(40));
    // Some with more queries than a block, and at least as many keys.
    const bool packed = rng.Chance(0.5), lengths = rng.Chance(0.5);
    const int64_t queries = below(seed % 3 == 0 ? 90 : 20);
    const int64_t keys = packed || rng.Chance(0.5) ? queries : queries + below(50);
    const ops::AttentionSettings settings{heads, rng.Chance(0.5),
                                          lengths && queries == keys && rng.Chance(0.5)};
    Tensors inputs = {DrawUnit({batch, queries, packed ? 3 * width : width}, seed)};
    if (!packed) {
      inputs.push_back(DrawUnit({batch, keys, width}, seed + 1));
      inputs.push_back(DrawUnit({batch, keys, width}, seed + 2));
    }
    if (lengths) {
      inputs.push_back(DrawIntegers(DType::kI32, {batch}, seed, -3, static_cast<float>(keys + 3)));
    }
    const ops::Attention attention(settings);
    ExpectSameAttention(attention, inputs);
    const Tensors outputs = RunAttention(reference::Kernels(), attention, inputs);
    inputs.insert(inputs.end(), {outputs[0], outputs[1], DrawUnit(outputs[0].shape(), seed + 3)});
    ExpectSameAttention(ops::AttentionGrad(settings), inputs);
  }
}

// Masked keys must not affect the result, however large, and scores far apart must not overflow.
TEST(AttentionKernels, LargeScoresStayInRange) {
  Tensor qkv = DrawUnit({1, 40, 24}, 1, -20, 20);
  const ops::AttentionSettings causal{.heads = 2, .causal = true};
  // Near 1000, f32 has four decimal places.
  ExpectSameAttention(ops::Attention(causal), {qkv}, 1e-3f);
  const Tensors before = RunAttention(Table(), ops::Attention(causal), {qkv});
  for (auto& x : qkv.as<float>().last(24)) x = 1e30f;
  const Tensors after = RunAttention(Table(), ops::Attention(causal), {qkv});
  // All but the last query.
  EXPECT_EQ(std::memcmp(before[0].raw(), after[0].raw(), 39 * 8 * sizeof(float)), 0);
}

TEST(NormalizeKernels, RandomSizes) {
  Rng rng(6);
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(rng.Below(n)); };
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const int64_t batch = below(6), places = 1 + below(9), n = 1 + below(70);
    const Tensor x = DrawUnit({batch, places, n}, seed, -3, 3), dy = DrawUnit({batch, places, n}, seed + 1);
    const Tensor scale = DrawUnit({n}, seed + 2), offset = DrawUnit({n}, seed + 3),
                 mean = DrawUnit({n}, seed + 4);
    const Tensor variance = DrawUnit({n}, seed + 5, 0.5f, 2),
                 weights = DrawIntegers(DType::kF32, {batch}, seed, 0, 2);
    ExpectSameAttention(ops::LayerNorm(1e-3f), {x, scale, offset});
    ExpectSameAttention(ops::LayerNormGrad(), {x, scale, DrawUnit({batch, places}, seed + 6),
                                               DrawUnit({batch, places}, seed + 7, 0.5f, 2), dy});
    ExpectSameAttention(ops::BatchNorm(1e-2f), {x, scale, offset, weights});
    ExpectSameAttention(ops::BatchNormGrad(1e-2f), {x, scale, weights, mean, variance, dy});
  }
}

// The choice of dropped elements must not depend on the backend.
TEST(DropoutKernels, DropTheSameBitForBit) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Tensors inputs = {DrawUnit({static_cast<int64_t>(1 + 7 * seed)}, seed),
                            DrawIntegers(DType::kI64, {}, seed, 0, 1e6f)};
    const ops::Dropout dropout(0.009f * static_cast<float>(seed), seed);
    const Tensors fast = RunAttention(Table(), dropout, inputs);
    const Tensors plain = RunAttention(reference::Kernels(), dropout, inputs);
    ASSERT_EQ(std::memcmp(fast[0].raw(), plain[0].raw(), plain[0].bytes()), 0) << seed;
  }
}

}  // namespace
}  // namespace leat::cpu
