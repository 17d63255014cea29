// Normalisation by row, by batch, and by moments of the stream; dropout.
#pragma once

#include <cstdint>

#include "compute/ops/op.h"

namespace leat::ops {

// Base of the ops that add an epsilon > 0 to the variance.
class EpsilonOp : public Op {
 public:
  explicit EpsilonOp(float e = 1e-5f) : epsilon(e) {}
  std::string attributes() const override { return "epsilon=" + graph::ToString(epsilon); }

  const float epsilon;

 protected:
  void CheckEpsilon() const;
};

// Layer normalisation (Ba, Kiros, Hinton 2016): normalises each row to mean 0 and variance 1, then scales and
// shifts.

// Inputs f32 x[..., n] with n > 0, scale[n], offset[n]. Outputs, with mean m and variance v of a row:
//   y[..., n] = (x - m) s · scale + offset,  m[...],  s[...] = 1 / √(v + epsilon)
struct LayerNorm final : Named<EpsilonOp, "layer_norm"> {
  using Named::Named;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  double flops(Types inputs, Types outputs) const override;
};

// Inputs x, scale, m, s as above, dy. Outputs dx, dscale, doffset.
struct LayerNormGrad final : Named<Op, "layer_norm_grad"> {
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  double flops(Types inputs, Types outputs) const override;
};

// Batch normalisation (Ioffe, Szegedy 2015) for training: normalises each channel to mean 0 and variance 1
// over the batch, then scales and shifts it. Inference uses known statistics and needs only a product and a
// sum.

// Inputs f32 x[batch, ..., c], scale[c], offset[c], weights[batch]. Outputs y[batch, ..., c], mean[c],
// variance[c]. Mean and variance are taken over all axes but the last, and weighted by row: a row of weight 2
// counts as two rows. The variance is divided by the sum of weights. A row of weight <= 0 is padding: it is
// left out, even if it holds NaN, and its y is 0. If all rows are padding, mean and variance are 0. No
// gradient flows to the weights.
struct BatchNorm final : Named<EpsilonOp, "batch_norm"> {
  using Named::Named;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  double flops(Types inputs, Types outputs) const override;
};

// Inputs x, scale, weights, mean, variance as above, dy. Outputs dx, dscale, doffset. dx is 0 for padding.
struct BatchNormGrad final : Named<EpsilonOp, "batch_norm_grad"> {
  using Named::Named;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  double flops(Types inputs, Types outputs) const override;
};

// Running moments of some columns of a batch, and the normalisation that they give.
//
// Moments travel as words of 32 bits (compute/optim/moments.h), in tensors f32[3, k, 2] for k columns. The
// columns, i32[k], are elements of a row of n, in [0, n). They are an input, usually a constant. No gradient
// flows through these ops: to the loss, moments are constants.

// Inputs f32 x[batch, ...], weights[batch], columns. Output: the moments of the columns over the rows with a
// weight above 0, each of which counts once. Values that are not finite are left out.
struct Moments final : Named<WithoutGradient<Op>, "moments"> {
  std::vector<TensorType> Infer(Types inputs) const override;
  double flops(Types inputs, Types outputs) const override;
};

// Inputs: running moments and those of a batch, f32[3, k, 2], and the columns. Outputs f32 shift, rest and
// factor (optim::Scaling), each of the shape of a row: by the running moments, or by the batch's for a column
// whose running count is 0. All other columns are left as they are: shift and rest 0, factor 1.
struct MomentsScaling final : Named<WithoutGradient<Op>, "moments_scaling"> {
  explicit MomentsScaling(Shape r) : row(r) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  std::string attributes() const override { return "row=" + row.ToString(); }

  const Shape row;
};

// Inverted dropout (Srivastava et al. 2014): kept elements are scaled up in training, so inference needs no
// change.
//
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
