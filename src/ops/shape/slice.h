// A box cut out of a tensor, and a tensor set into a larger one: each the gradient of the other.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// Elements begin[i] + j step[i], 0 <= j < size[i], of each axis i; of any type. Steps are 1 when there are
// none, and may be negative.
class Slice final : public Op {
 public:
  Slice(std::vector<int64_t> b, std::vector<int64_t> s, std::vector<int64_t> st = {})
      : begin(std::move(b)), size(std::move(s)), step(Dropped(std::move(st))) {}
  std::string_view kind() const override { return "slice"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const std::vector<int64_t> begin;
  const std::vector<int64_t> size;
  const std::vector<int64_t> step;  // empty: all 1

 private:
  static std::vector<int64_t> Dropped(std::vector<int64_t> steps);
};

// What Slice takes from `shape`, put back: f32 zeros but for elements begin[i] + j step[i].
class SliceGrad final : public Op {
 public:
  SliceGrad(Shape s, std::vector<int64_t> b, std::vector<int64_t> st)
      : shape(s), begin(std::move(b)), step(std::move(st)) {}
  std::string_view kind() const override { return "slice_grad"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const Shape shape;
  const std::vector<int64_t> begin;
  const std::vector<int64_t> step;
};

// What stands in the border: a value, the nearest element, or the inside mirrored at the outermost element,
// which is not repeated: c b | a b c | b a.
enum class PadMode : uint8_t { kConstant, kEdge, kReflect };
// "constant", "edge", "reflect"
std::string_view Name(PadMode mode);

// before[i] elements in front of axis i and after[i] behind it, of any type. kEdge needs an element to
// repeat, kReflect more than it has to mirror.
class Pad final : public Op {
 public:
  Pad(std::vector<int64_t> b, std::vector<int64_t> a, PadMode m = PadMode::kConstant, float v = 0)
      : before(std::move(b)), after(std::move(a)), mode(m), value(v) {}
  std::string_view kind() const override { return "pad"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const std::vector<int64_t> before;
  const std::vector<int64_t> after;
  const PadMode mode;
  const float value;
};

// f32: a padded tensor's elements summed on those that they were copied from.
class PadGrad final : public Op {
 public:
  PadGrad(std::vector<int64_t> b, std::vector<int64_t> a, PadMode m)
      : before(std::move(b)), after(std::move(a)), mode(m) {}
  std::string_view kind() const override { return "pad_grad"; }
  std::vector<TensorType> Infer(Types inputs) const override;
  InputGrads Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const override;
  std::string attributes() const override;

  const std::vector<int64_t> before;
  const std::vector<int64_t> after;
  const PadMode mode;
};

// Where element i of an axis of that size with `before` in front of it comes from, for other modes than
// kConstant.
int64_t PadSource(PadMode mode, int64_t i, int64_t before, int64_t size);

}  // namespace leat::ops
