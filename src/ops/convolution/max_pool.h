// The largest element of each window, and the moves to and from where it was found.
#pragma once

#include "ops/convolution/pool.h"

namespace leat::ops {

// The type of numbers that name an element of a window: u8 while they fit, else i32.
DType WindowIndexType(const Pair& kernel);

// Input x[n, h, w, c]; outputs y[n, oh, ow, c], and which element of its window each is: ky · kernel width +
// kx, of equal ones the first. NaN is larger than any number.
class MaxPool final : public Op {
 public:
  explicit MaxPool(PoolAttributes a) : attr(a) {}
  std::string_view kind() const override { return "max_pool"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return ToString(attr); }
  double flops(Types inputs, Types outputs) const override;

  const PoolAttributes attr;
};

// Inputs dy[n, oh, ow, c], index; output dx[n, h, w, c]: each element of dy added where its index points,
// zero elsewhere. An index that points beyond the window or into the padding adds nothing.
class MaxPoolGrad final : public Op {
 public:
  MaxPoolGrad(PoolAttributes a, Pair in) : attr(a), input(in) {}
  std::string_view kind() const override { return "max_pool_grad"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return ToString(attr) + " input=" + ToString(input); }
  double flops(Types inputs, Types outputs) const override;

  const PoolAttributes attr;
  const Pair input;  // h x w
};

// Inputs x[n, h, w, c], index[n, oh, ow, c]; output y[n, oh, ow, c]: the element of each window that the
// index names, 0 for one that is not there.
class MaxPoolGather final : public Op {
 public:
  explicit MaxPoolGather(PoolAttributes a) : attr(a) {}
  std::string_view kind() const override { return "max_pool_gather"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return ToString(attr); }

  const PoolAttributes attr;
};

}  // namespace leat::ops
