// 2-D convolution and pooling over images, their gradients, and the windows that both read.
//
// Convolutions: operands are f32 or bf16 (compute/ops/matrix/matrix.h), results f32. All three ops are
// derivatives of one trilinear sum, with c running over the channels of the group of o:
//   Σ x[n, oy·sh + ky·dh − top, ox·sw + kx·dw − left, c] · w[o, c, ky, kx] · y[n, oy, ox, o]
// Conv2d is its derivative with respect to y, Conv2dGradInput to x, Conv2dGradWeights to w. So the gradients
// of each op are the other two.
//
// Pools process each channel of an image separately: max pooling with its gradient and the gradient of that,
// and the mean of each window.
#pragma once

#include "compute/ops/matrix/matrix.h"
#include "compute/ops/op.h"

namespace leat::ops {

struct Pair {
  int64_t height = 1;
  int64_t width = 1;
  friend bool operator==(const Pair&, const Pair&) = default;
};
// "3x5"
std::string ToString(const Pair& pair);

// Rows and columns added around an image.
struct Padding {
  int64_t top = 0;
  int64_t left = 0;
  int64_t bottom = 0;
  int64_t right = 0;
  friend bool operator==(const Padding&, const Padding&) = default;
};

// Windows over the height and width of images. All arithmetic is checked for overflow, since attributes may
// come from files.
struct Window {
  Pair kernel;     // elements that one window reads
  Pair strides;    // from one window to the next
  Pair dilations;  // from one element of a window to the next
  Padding padding;

  // The dilated kernel: rows and columns from the window's first element to its last, inclusive. Only valid
  // after CountWindows has checked the window.
  Pair Extent() const;
};

// The number of windows over an image of that size. Throws std::invalid_argument if a kernel, stride or
// dilation is below 1, a padding is negative, any of them is 2^31 or more, or the kernel is larger than the
// padded image.
Pair CountWindows(const Window& window, const Pair& image);

// Throws std::invalid_argument, with the name `what`, unless `shape` is [batch, height, width, channels].
void CheckImages(std::string_view what, const Shape& shape);
Pair ImageSize(const Shape& shape);

// " strides=2x2 dilations=1x1 padding=1,1,1,1", without default values.
std::string WindowAttributes(const Window& window);

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

// Base of the ops: their attributes, and the sizes that follow from the first two inputs.
class ConvolutionOp : public Op {
 public:
  explicit ConvolutionOp(Conv2dAttributes a) : attr(a) {}
  // Throws std::invalid_argument with the sizes that do not match.
  virtual Conv2dSizes Sizes(Types inputs) const = 0;
  std::string attributes() const override { return ToString(attr); }
  double flops(Types inputs, Types outputs) const override;

  const Conv2dAttributes attr;

 protected:
  // The sizes, if these are `count` inputs of the right types.
  Conv2dSizes Check(Types inputs, size_t count = 2) const;
};

// Base of the ops with inputs x[n, h, w, c], w[o, c / groups, kh, kw] and output y[n, oh, ow, o].
class ForwardConvolution : public ConvolutionOp {
 public:
  using ConvolutionOp::ConvolutionOp;
  Conv2dSizes Sizes(Types inputs) const override;
};

struct Conv2d final : Named<ForwardConvolution, "conv2d"> {
  explicit Conv2d(Conv2dAttributes a = {}) : Named(a) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// The gradient with respect to the input, also known as transposed convolution. Inputs y[n, oh, ow, o], w;
// output x[n, h, w, c]. `input` is h x w; a convolution of that size must give oh x ow.
struct Conv2dGradInput final : Named<ConvolutionOp, "conv2d_grad_input"> {
  Conv2dGradInput(Conv2dAttributes a, Pair in) : Named(a), input(in) {}
  Conv2dSizes Sizes(Types inputs) const override;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const Pair input;
};

// The gradients with respect to the weights. Inputs x[n, h, w, c], y[n, oh, ow, o]; output w[o, c / groups,
// kernel].
class WeightsConvolution : public ConvolutionOp {
 public:
  WeightsConvolution(Conv2dAttributes a, Pair k) : ConvolutionOp(a), kernel(k) {}
  Conv2dSizes Sizes(Types inputs) const override;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const Pair kernel;
};

using Conv2dGradWeights = Named<WeightsConvolution, "conv2d_grad_weights">;

// activation(conv2d(x, w) + b) in one kernel, and the gradients of weights and bias in one. Created by the
// passes of compute/ops/passes.h.

// Inputs x, w as for Conv2d, b[filters].
struct Conv2dBias final : Named<ForwardConvolution, "conv2d_bias"> {
  explicit Conv2dBias(Conv2dAttributes a = {}, Activation act = Activation::kNone)
      : Named(a), activation(act) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const Activation activation;
};

// Inputs x, y as for Conv2dGradWeights; outputs w and b[filters], the sum of y over all windows.
struct Conv2dGradWeightsBias final : Named<WeightsConvolution, "conv2d_grad_weights_bias"> {
  using Named::Named;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

struct PoolAttributes {
  Pair kernel;
  Pair strides;
  Padding padding;
};

// The output shape for images x[n, h, w, c]. Throws std::invalid_argument with the sizes that do not match.
// The padding must be smaller than the kernel, so that every window contains an element of the image.
Shape PooledShape(const PoolAttributes& attributes, const Shape& x);
// The reverse: the shape of images of size `input` that are pooled to y[n, oh, ow, c]. Throws as above.
Shape UnpooledShape(const PoolAttributes& attributes, const Shape& y, const Pair& input);
// "kernel=2x2 strides=2x2"
std::string ToString(const PoolAttributes& attributes);
// The type of indices of elements in a window: u8 if they fit, else i32.
DType WindowIndexType(const Pair& kernel);

// Base of the ops with windows over input 0, and of those with windows over output 0.
class PoolOp : public Op {
 public:
  explicit PoolOp(PoolAttributes a) : attr(a) {}
  std::string attributes() const override { return ToString(attr); }
  double flops(Types inputs, Types outputs) const override;

  const PoolAttributes attr;
};
class UnpoolOp : public Op {
 public:
  UnpoolOp(PoolAttributes a, Pair in) : attr(a), input(in) {}
  std::string attributes() const override { return ToString(attr) + " input=" + ToString(input); }
  double flops(Types inputs, Types outputs) const override;

  const PoolAttributes attr;
  const Pair input;  // h x w
};

// Input x[n, h, w, c]; outputs y[n, oh, ow, c] and index[n, oh, ow, c], the position of the maximum in its
// window: ky · kernel width + kx, the first if several are equal. NaN counts as larger than any number.
struct MaxPool final : Named<PoolOp, "max_pool"> {
  using Named::Named;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs dy[n, oh, ow, c], index; output dx[n, h, w, c]: each element of dy is added at the position that its
// index gives, all others are zero. An index outside the window or in the padding is ignored.
struct MaxPoolGrad final : Named<UnpoolOp, "max_pool_grad"> {
  using Named::Named;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Inputs x[n, h, w, c], index[n, oh, ow, c]; output y[n, oh, ow, c]: the element of each window at its index,
// 0 if the index is outside the window or in the padding.
struct MaxPoolGather final : Named<PoolOp, "max_pool_gather"> {
  using Named::Named;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  double flops(Types inputs, Types outputs) const override { return Op::flops(inputs, outputs); }
};

// The mean of each window. Input x[n, h, w, c]; output y[n, oh, ow, c]. The divisor is the number of elements
// in the window; count_include_pad says whether padding counts.
struct AvgPool final : Named<PoolOp, "avg_pool"> {
  AvgPool(PoolAttributes a, bool include_pad) : Named(a), count_include_pad(include_pad) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const bool count_include_pad;
};

// Input dy[n, oh, ow, c]; output dx[n, h, w, c]: each element of dy is spread evenly over its window.
struct AvgPoolGrad final : Named<UnpoolOp, "avg_pool_grad"> {
  AvgPoolGrad(PoolAttributes a, bool include_pad, Pair in) : Named(a, in), count_include_pad(include_pad) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const bool count_include_pad;
};

}  // namespace leat::ops
