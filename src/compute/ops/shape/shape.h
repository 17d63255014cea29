// Ops that rearrange elements, and the axes that they name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compute/ops/op.h"
#include "compute/tensor/shape.h"

namespace leat::ops {

// Helpers for axis and size attributes.

// Resolves an axis; a negative one counts from the end. Throws std::invalid_argument if it is out of range
// for `rank`.
size_t AxisOf(int axis, size_t rank);

std::vector<int64_t> SizesOf(const Shape& shape);

// "1,-2,3"
std::string ListOf(const std::vector<int64_t>& values);

// A shape viewed along one axis: [outer, size, inner].
struct AxisView {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};
AxisView ViewAlong(const Shape& shape, size_t axis);

// The same elements in the same order with another shape. A view: it costs nothing.

struct Reshape final : Named<Op, "reshape"> {
  explicit Reshape(Shape s) : shape(s) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "shape=" + shape.ToString(); }
  bool is_view() const override { return true; }

  const Shape shape;
};

// Permutes axes.

// Axis i of the output is axis permutation[i] of the input, which may be of any type.
struct Transpose final : Named<Op, "transpose"> {
  explicit Transpose(std::vector<int> p) : permutation(std::move(p)) {}
  // Transposes a matrix.
  Transpose() : Transpose({1, 0}) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const std::vector<int> permutation;
};

// Concatenation along an axis.

// Joins one or more inputs of the same type, whose shapes may differ only along `axis` (negative: counted
// from the end).
struct Concat final : Named<Op, "concat"> {
  explicit Concat(int a) : axis(a) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "axis=" + std::to_string(axis); }

  const int axis;
};

// Splits a tensor along an axis.

// Output i has sizes[i] elements along the axis (negative: counted from the end). The sizes must add up to
// the axis. Any type.
struct Split final : Named<Op, "split"> {
  Split(int a, std::vector<int64_t> s) : axis(a), sizes(std::move(s)) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const int axis;
  const std::vector<int64_t> sizes;
};

}  // namespace leat::ops
