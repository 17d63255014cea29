// Slicing and padding, and their gradients.
#pragma once

#include "base/fields/fields.h"
#include "compute/ops/op.h"

namespace leat::ops {

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
