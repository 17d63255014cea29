// Ops that rearrange elements or stretch axes, and the axes that they name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields/fields.h"
#include "compute/ops/op.h"
#include "compute/tensor/shape.h"

namespace leat::ops {

// Helpers for axis and size attributes.

// Resolves an axis; a negative one counts from the end. Throws std::invalid_argument if it is out of range
// for `rank`.
size_t AxisOf(int axis, size_t rank);

std::vector<int64_t> SizesOf(const Shape& shape);

// Strides, in elements, of a tensor of that shape (0 along axes of size 1); those of every step[i]-th element
// (empty: of all); and the offset of the element at `index`.
std::vector<int64_t> StridesOf(const Shape& shape);
std::vector<int64_t> Stepped(std::vector<int64_t> strides, const std::vector<int64_t>& step);
int64_t OffsetOf(const Shape& shape, std::span<const int64_t> index);

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

// Broadcasting as in NumPy: shapes are aligned at their last axes, and axes of size 1 are stretched.

// The shape that both broadcast to. Throws std::invalid_argument with the sizes that differ.
Shape BroadcastShape(const Shape& a, const Shape& b);

// Strides, in elements, to read a tensor of shape `from` as one of shape `to`: 0 along stretched axes.
std::vector<int64_t> BroadcastStrides(const Shape& from, const Shape& to);

// x, of any type, stretched to `shape`.
struct BroadcastTo final : Named<Op, "broadcast_to"> {
  explicit BroadcastTo(Shape s) : shape(s) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "shape=" + shape.ToString(); }

  const Shape shape;
};

// x summed to `shape`, which must broadcast to the shape of x: the gradient of BroadcastTo.
struct SumTo final : Named<Op, "sum_to"> {
  explicit SumTo(Shape s) : shape(s) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override { return "shape=" + shape.ToString(); }
  double flops(Types inputs, Types outputs) const override;

  const Shape shape;
};

// Adds a SumTo unless x has that shape already.
Value ReduceToShape(Graph& graph, Value x, const Shape& shape);
// Adds a BroadcastTo unless x has that shape already.
Value StretchToShape(Graph& graph, Value x, const Shape& shape);

// Elements begin[i] + j step[i], 0 <= j < size[i], along each axis i, of any type. Steps may be negative; an
// empty list means 1.
struct Slice final : Named<Op, "slice"> {
  Slice(std::vector<int64_t> b, std::vector<int64_t> s, std::vector<int64_t> st = {})
      : begin(std::move(b)), size(std::move(s)), step(Dropped(std::move(st))) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const std::vector<int64_t> begin;
  const std::vector<int64_t> size;
  const std::vector<int64_t> step;  // empty: all 1

 private:
  static std::vector<int64_t> Dropped(std::vector<int64_t> steps);
};

// The gradient of Slice: the input placed at elements begin[i] + j step[i] of an f32 tensor of `shape`, zero
// elsewhere.
struct SliceGrad final : Named<Op, "slice_grad"> {
  SliceGrad(Shape s, std::vector<int64_t> b, std::vector<int64_t> st)
      : shape(s), begin(std::move(b)), step(std::move(st)) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const Shape shape;
  const std::vector<int64_t> begin;
  const std::vector<int64_t> step;
};

// The content of the padding: a constant, the nearest element, or a reflection that does not repeat the
// outermost element: c b | a b c | b a.
enum class PadMode : uint8_t { kConstant, kEdge, kReflect };
LEAT_ENUM(PadMode, (kConstant, "constant"), (kEdge, "edge"), (kReflect, "reflect"));

// Adds before[i] elements before and after[i] after axis i, of any type. kEdge needs a non-empty axis,
// kReflect one longer than the padding.
struct Pad final : Named<Op, "pad"> {
  Pad(std::vector<int64_t> b, std::vector<int64_t> a, PadMode m = PadMode::kConstant, float v = 0)
      : before(std::move(b)), after(std::move(a)), mode(m), value(v) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const std::vector<int64_t> before;
  const std::vector<int64_t> after;
  const PadMode mode;
  const float value;
};

// The gradient of Pad for f32: adds each element to the one it was copied from.
struct PadGrad final : Named<Op, "pad_grad"> {
  PadGrad(std::vector<int64_t> b, std::vector<int64_t> a, PadMode m)
      : before(std::move(b)), after(std::move(a)), mode(m) {}
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const std::vector<int64_t> before;
  const std::vector<int64_t> after;
  const PadMode mode;
};

// The source of element i of a padded axis, given the padding `before` it and its original size. Not for
// kConstant.
int64_t PadSource(PadMode mode, int64_t i, int64_t before, int64_t size);

}  // namespace leat::ops
