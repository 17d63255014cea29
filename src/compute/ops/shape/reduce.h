// Sums, means, extremes, norms and products along axes.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

class ReduceOp : public Op {
 public:
  // Negative axes count from the end; no axes means all. With keep_dims, reduced axes stay with size 1.
  explicit ReduceOp(std::vector<int> a = {}, bool keep = false) : axes(std::move(a)), keep_dims(keep) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  // For each axis of a tensor of this rank, whether it is reduced. Throws std::invalid_argument if an axis is
  // out of range or listed twice.
  std::vector<bool> Reduced(size_t rank) const;
  // The input shape with reduced axes of size 1, which broadcasts to the input.
  Shape KeptShape(const Shape& input) const;

  // Broadcasts dy, of the output shape, to the shape of the input x.
  Value SpreadBack(Graph& graph, Value x, Value dy) const;

  const std::vector<int> axes;
  const bool keep_dims;

 protected:
  // Throws std::invalid_argument if the input is empty but the output is not.
  static void CheckNotEmpty(std::string_view what, const Shape& input, const Shape& output);
};

struct ReduceSum final : Named<ReduceOp, "reduce_sum"> {
  using Named::Named;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Rejects an empty input.
struct ReduceMean final : Named<ReduceOp, "reduce_mean"> {
  using Named::Named;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// The largest and the smallest element along axes. NaN if any element is NaN. Equal extremes share the
// gradient. Rejects an empty input.
class ReduceExtreme : public ReduceOp {
 public:
  using ReduceOp::ReduceOp;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

using ReduceMax = Named<ReduceExtreme, "reduce_max">;
using ReduceMin = Named<ReduceExtreme, "reduce_min">;

// log Σ e^x along axes, numerically stable. Rejects an empty input.
struct LogSumExp final : Named<ReduceOp, "log_sum_exp"> {
  using Named::Named;
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// √Σx² along axes. No gradient flows where the result is 0.
struct ReduceL2 final : Named<ReduceOp, "reduce_l2"> {
  using Named::Named;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// The product of no elements is 1.
struct ReduceProd final : Named<ReduceOp, "reduce_prod"> {
  using Named::Named;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// For each element of x, the product of the others along the axes. Correct for zeros too, but its own
// gradient is not, since it divides by x.
struct ProdOfOthers final : Named<ReduceOp, "prod_of_others"> {
  explicit ProdOfOthers(std::vector<int> a = {}) : Named(std::move(a), true) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Positions of the largest and the smallest element along an axis.

// Input f32, output i32 or i64. The first of equal elements; NaN only if all are NaN. The axis (negative:
// counted from the end) is removed, or kept with size 1 if keep_dims. It must not be empty. No gradient
// flows.
class ArgExtreme : public WithoutGradient<Op> {
 public:
  explicit ArgExtreme(int a = -1, bool keep = false, DType t = DType::kI64)
      : axis(a), keep_dims(keep), type(t) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  const int axis;
  const bool keep_dims;
  const DType type;
};

using ArgMax = Named<ArgExtreme, "arg_max">;
using ArgMin = Named<ArgExtreme, "arg_min">;

// Cumulative sums along an axis.

// Element i is the sum of elements 0 to i, or 0 to i - 1 if `exclusive`. `reverse` sums from the end.
struct CumSum final : Named<Op, "cumsum"> {
  explicit CumSum(int a, bool ex = false, bool rev = false) : axis(a), exclusive(ex), reverse(rev) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const int axis;
  const bool exclusive;
  const bool reverse;
};

}  // namespace leat::ops
