// Max pooling, its gradient, and the gradient of that.
#pragma once

#include "ops/convolution/pool.h"

namespace leat::ops {

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

}  // namespace leat::ops
