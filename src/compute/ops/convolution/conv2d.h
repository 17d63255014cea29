// 2-D convolution and its gradients. Operands are f32 or bf16 (compute/ops/matrix/matrix.h), results f32.
//
// All three ops are derivatives of one trilinear sum, with c running over the channels of o's group:
//   Σ x[n, oy·sh + ky·dh − top, ox·sw + kx·dw − left, c] · w[o, c, ky, kx] · y[n, oy, ox, o]
// Conv2d is its derivative with respect to y, Conv2dGradInput to x, Conv2dGradWeights to w. So the gradients
// of each op are the other two.
#pragma once

#include "compute/ops/convolution/window.h"
#include "compute/ops/matrix/matrix.h"

namespace leat::ops {

struct Conv2dAttributes {
  Pair strides;
  Padding padding;
  Pair dilations;
  int64_t groups = 1;  // filters of a group read only the channels of that group
};

// Sizes of a convolution, shared by shape rules and kernels.
struct Conv2dSizes {
  int64_t batch, channels, filters, groups;
  Pair input, output;
  Window window;
  Shape x, w, y;  // [batch, height, width, channels], [filters, channels / groups, kernel], like x

  double flops() const;
};
// The sizes for each of the three ops, from the shapes of two factors and the missing sizes of the third.
// Throw std::invalid_argument with the sizes that do not match.
Conv2dSizes Conv2dSizesOf(const Conv2dAttributes& attributes, const Shape& x, const Shape& w);
Conv2dSizes Conv2dSizesOf(const Conv2dAttributes& attributes, const Shape& y, const Shape& w,
                          const Pair& input);
Conv2dSizes Conv2dSizesOfWeights(const Conv2dAttributes& attributes, const Shape& x, const Shape& y,
                                 const Pair& kernel);
// "strides=2x2 groups=2"
std::string ToString(const Conv2dAttributes& attributes);

// Inputs x[n, h, w, c], w[o, c / groups, kh, kw]; output y[n, oh, ow, o].
struct Conv2d final : Named<Op, "conv2d"> {
  explicit Conv2d(Conv2dAttributes a = {}) : attr(a) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return ToString(attr); }
  double flops(Types inputs, Types outputs) const override;

  const Conv2dAttributes attr;
};

// The gradient with respect to the input, also known as transposed convolution. Inputs y[n, oh, ow, o], w;
// output x[n, h, w, c]. `input` is h x w; a convolution of that size must give oh x ow.
struct Conv2dGradInput final : Named<Op, "conv2d_grad_input"> {
  Conv2dGradInput(Conv2dAttributes a, Pair in) : attr(a), input(in) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const Conv2dAttributes attr;
  const Pair input;
};

// The gradient with respect to the weights. Inputs x[n, h, w, c], y[n, oh, ow, o]; output w[o, c / groups,
// kernel].
struct Conv2dGradWeights final : Named<Op, "conv2d_grad_weights"> {
  Conv2dGradWeights(Conv2dAttributes a, Pair k) : attr(a), kernel(k) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const Conv2dAttributes attr;
  const Pair kernel;
};

// activation(conv2d(x, w) + b) in one kernel, and the gradients of weights and bias in one. Created by the
// passes of compute/ops/convolution/fuse.h.

// Inputs x, w as for Conv2d, b[filters].
struct Conv2dBias final : Named<Op, "conv2d_bias"> {
  explicit Conv2dBias(Conv2dAttributes a = {}, Activation act = Activation::kNone)
      : attr(a), activation(act) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const Conv2dAttributes attr;
  const Activation activation;
};

// Inputs x, y as for Conv2dGradWeights; outputs w and b[filters], the sum of y over all windows.
struct Conv2dGradWeightsBias final : Named<Op, "conv2d_grad_weights_bias"> {
  Conv2dGradWeightsBias(Conv2dAttributes a, Pair k) : attr(a), kernel(k) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const Conv2dAttributes attr;
  const Pair kernel;
};

}  // namespace leat::ops
