// Dropout (Srivastava et al. 2014), inverted: what is kept is scaled up, so that scoring needs nothing.
#pragma once

#include <cstdint>

#include "ops/op.h"

namespace leat::ops {

// Inputs f32 x, noise i64[]. y = 0 for a share `rate` of the elements, x / (1 - rate) for the others. Which
// ones is a pure function of (noise, salt, position), so the gradient, and whoever repeats the step, drops
// the same; the salt keeps the layers of a network apart.
class Dropout final : public Op {
 public:
  Dropout(float r, uint64_t s) : rate(r), salt(s) {}
  std::string_view kind() const override { return "dropout"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const float rate;  // in [0, 1)
  const uint64_t salt;
};

// The choice, which all kernels share. Plain 32-bit arithmetic, so that loops over it become vector code.
class DropoutMask {
 public:
  DropoutMask(const Dropout& op, int64_t random_seed);
  // What positions below 2^32 of each 2^32 are mixed with.
  struct Keys {
    uint32_t first, second;
  };
  Keys KeysOf(uint64_t block) const;
  int32_t threshold() const { return threshold_; }
  // 1 over the share that is kept.
  float factor() const { return factor_; }

  // 24 random bits of the position's low half: dropped when below the threshold.
  [[gnu::always_inline]] static inline int32_t Bits(uint32_t position, Keys keys) {
    uint32_t h = position * 0x9e3779b9u ^ keys.first;
    h = (h ^ (h >> 16)) * 0x21f0aaadu;
    h = (h ^ (h >> 15)) + keys.second;
    h = (h ^ (h >> 16)) * 0x735a2d97u;
    return static_cast<int32_t>((h ^ (h >> 15)) >> 8);
  }

 private:
  uint64_t key_;
  int32_t threshold_;
  float factor_;
};

}  // namespace leat::ops
