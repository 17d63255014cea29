// The mean of each window.
#pragma once

#include "ops/convolution/pool.h"

namespace leat::ops {

// Input x[n, h, w, c]; output y[n, oh, ow, c]. The divisor is the number of elements in the window;
// count_include_pad says whether padding counts.
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
