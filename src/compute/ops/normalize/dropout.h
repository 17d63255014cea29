// Inverted dropout (Srivastava et al. 2014): kept elements are scaled up in training, so inference needs no
// change.
#pragma once

#include <cstdint>

#include "compute/ops/op.h"

namespace leat::ops {

// Inputs f32 x, random_seed i64[]. Output y: 0 for a fraction `rate` of the elements, x / (1 - rate) for the
// others. The choice is a pure function of (random_seed, salt, position), so the gradient and a repeated step
// drop the same elements. Each layer of a network has a different salt.
struct Dropout final : Named<Op, "dropout"> {
  Dropout(float r, uint64_t s) : rate(r), salt(s) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const float rate;  // in [0, 1)
  const uint64_t salt;
};

// The choice of dropped elements, shared by all kernels. 32-bit arithmetic, so that compilers vectorise it.
class DropoutMask {
 public:
  DropoutMask(const Dropout& op, int64_t random_seed);
  // Hash keys of one block of 2^32 positions.
  struct Keys {
    uint32_t first, second;
  };
  Keys KeysOf(uint64_t block) const;
  int32_t threshold() const { return threshold_; }
  // 1 / (fraction that is kept).
  float factor() const { return factor_; }

  // 24 random bits for the low 32 bits of a position. The element is dropped if they are below the threshold.
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
