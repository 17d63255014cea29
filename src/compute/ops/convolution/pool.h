// The pooling ops, which process each channel of an image separately: their attributes and shape rules, max
// pooling with its gradient and the gradient of that, and the mean of each window.
#pragma once

#include "compute/ops/convolution/window.h"

namespace leat::ops {

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
// Arithmetic operations of one pass over all windows.
double PoolFlops(const PoolAttributes& attributes, const Shape& y);

// The type of indices of elements in a window: u8 if they fit, else i32.
DType WindowIndexType(const Pair& kernel);

// Input x[n, h, w, c]; outputs y[n, oh, ow, c] and index[n, oh, ow, c], the position of the maximum in its
// window: ky · kernel width + kx, the first if several are equal. NaN counts as larger than any number.
struct MaxPool final : Named<Op, "max_pool"> {
  explicit MaxPool(PoolAttributes a) : attr(a) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return ToString(attr); }
  double flops(Types inputs, Types outputs) const override;

  const PoolAttributes attr;
};

// Inputs dy[n, oh, ow, c], index; output dx[n, h, w, c]: each element of dy is added at the position that its
// index gives, all others are zero. An index outside the window or in the padding is ignored.
struct MaxPoolGrad final : Named<Op, "max_pool_grad"> {
  MaxPoolGrad(PoolAttributes a, Pair in) : attr(a), input(in) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return ToString(attr) + " input=" + ToString(input); }
  double flops(Types inputs, Types outputs) const override;

  const PoolAttributes attr;
  const Pair input;  // h x w
};

// Inputs x[n, h, w, c], index[n, oh, ow, c]; output y[n, oh, ow, c]: the element of each window at its index,
// 0 if the index is outside the window or in the padding.
struct MaxPoolGather final : Named<Op, "max_pool_gather"> {
  explicit MaxPoolGather(PoolAttributes a) : attr(a) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return ToString(attr); }

  const PoolAttributes attr;
};

// The mean of each window. Input x[n, h, w, c]; output y[n, oh, ow, c]. The divisor is the number of elements
// in the window; count_include_pad says whether padding counts.
struct AvgPool final : Named<Op, "avg_pool"> {
  AvgPool(PoolAttributes a, bool include_pad) : attr(a), count_include_pad(include_pad) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const PoolAttributes attr;
  const bool count_include_pad;
};

// Input dy[n, oh, ow, c]; output dx[n, h, w, c]: each element of dy is spread evenly over its window.
struct AvgPoolGrad final : Named<Op, "avg_pool_grad"> {
  AvgPoolGrad(PoolAttributes a, bool include_pad, Pair in)
      : attr(a), count_include_pad(include_pad), input(in) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const PoolAttributes attr;
  const bool count_include_pad;
  const Pair input;  // h x w
};

}  // namespace leat::ops
