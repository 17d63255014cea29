// Sums and means along axes.
#pragma once

#include "ops/op.h"

namespace leat::ops {

class ReduceOp : public Op {
 public:
  // `axes`: counted from the end when negative; none means all. keep_dims leaves an axis of size 1 behind.
  explicit ReduceOp(std::vector<int> a, bool keep) : axes(std::move(a)), keep_dims(keep) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  std::string attributes() const override;
  double flops(Types inputs, Types outputs) const override;

  // Which axes of a tensor of that rank go. Throws std::invalid_argument on one that is not there or named
  // twice.
  std::vector<bool> Reduced(size_t rank) const;
  // The shape with size 1 where an axis goes: what the result broadcasts back from.
  Shape KeptShape(const Shape& input) const;

  // dy, of this op's output shape, stretched back to the shape of its input x.
  Value SpreadBack(Graph& graph, Value x, Value dy) const;

  const std::vector<int> axes;
  const bool keep_dims;

 protected:
  // Throws when elements of the output would come from none of the input.
  static void CheckNotEmpty(std::string_view what, const Shape& input, const Shape& output);
};

class ReduceSum final : public ReduceOp {
 public:
  explicit ReduceSum(std::vector<int> a = {}, bool keep = false) : ReduceOp(std::move(a), keep) {}
  std::string_view kind() const override { return "reduce_sum"; }
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

// Refuses to take the mean of no elements.
class ReduceMean final : public ReduceOp {
 public:
  explicit ReduceMean(std::vector<int> a = {}, bool keep = false) : ReduceOp(std::move(a), keep) {}
  std::string_view kind() const override { return "reduce_mean"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
};

}  // namespace leat::ops
