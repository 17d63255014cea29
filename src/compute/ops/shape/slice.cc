#include "compute/ops/shape/slice.h"

#include <algorithm>
#include <stdexcept>

#include "compute/ops/shape/shape.h"

namespace leat::ops {
namespace {

// Whether `size` elements from `begin`, `step` apart, are in [0, n). No sum or product here can overflow.
bool Inside(int64_t begin, int64_t size, int64_t step, int64_t n) {
  if (begin < 0 || size < 0 || begin > n || size > n) return false;
  if (step == 0 || step > Shape::kMaxElements || step < -Shape::kMaxElements) return false;
  if (size == 0) return true;
  return begin < n && (step > 0 ? (n - 1 - begin) / step : begin / -step) >= size - 1;
}

int64_t StepOf(const std::vector<int64_t>& steps, size_t axis) {
  return steps.empty() ? 1 : steps[axis];
}

void CheckBox(const Shape& shape, const std::vector<int64_t>& begin, const std::vector<int64_t>& size,
              const std::vector<int64_t>& step, const std::string& attributes) {
  const size_t rank = shape.rank();
  bool fits = begin.size() == rank && size.size() == rank && (step.empty() || step.size() == rank);
  for (size_t i = 0; fits && i < rank; ++i) fits = Inside(begin[i], size[i], StepOf(step, i), shape[i]);
  if (!fits) throw std::invalid_argument(attributes + " is out of range for " + shape.ToString());
}

std::string Borders(const std::vector<int64_t>& before, const std::vector<int64_t>& after, PadMode mode) {
  return "before=" + ListOf(before) + " after=" + ListOf(after) +
         (mode == PadMode::kConstant ? "" : " mode=" + std::string(fields::NameOf(mode)));
}

// Whether the padding is valid for an axis of `size` elements.
bool Fits(PadMode mode, int64_t before, int64_t after, int64_t size) {
  if (before < 0 || after < 0 || before > Shape::kMaxElements || after > Shape::kMaxElements) return false;
  if (before == 0 && after == 0) return true;
  if (mode == PadMode::kEdge) return size > 0;
  if (mode == PadMode::kReflect) return before < size && after < size;
  return true;
}

}  // namespace

std::vector<int64_t> Slice::Dropped(std::vector<int64_t> steps) {
  const bool plain = std::ranges::all_of(steps, [](int64_t s) { return s == 1; });
  return plain ? std::vector<int64_t>{} : std::move(steps);
}

std::vector<TensorType> Slice::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  CheckBox(inputs[0].shape, begin, size, step, attributes());
  return {{inputs[0].dtype, Shape(size)}};
}

InputGrads Slice::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  const Shape& shape = graph.shape(node.inputs[0]);
  if (!step.empty()) return {graph.Make<SliceGrad>({*output_grads[0]}, shape, begin, step)};
  std::vector<int64_t> after(begin.size());
  for (size_t i = 0; i < after.size(); ++i) after[i] = shape[i] - begin[i] - size[i];
  return {graph.Make<Pad>({*output_grads[0]}, begin, after)};
}

std::string Slice::attributes() const {
  return "begin=" + ListOf(begin) + " size=" + ListOf(size) + (step.empty() ? "" : " step=" + ListOf(step));
}

std::vector<TensorType> SliceGrad::Infer(Types inputs) const {
  graph::CheckF32(inputs, 1);
  CheckBox(shape, begin, SizesOf(inputs[0].shape), step, inputs[0].shape.ToString() + " " + attributes());
  return {{DType::kF32, shape}};
}

InputGrads SliceGrad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Slice>({*output_grads[0]}, begin, SizesOf(graph.shape(node.inputs[0])), step)};
}

std::string SliceGrad::attributes() const {
  return "shape=" + shape.ToString() + " begin=" + ListOf(begin) + " step=" + ListOf(step);
}

std::vector<TensorType> Pad::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  const Shape& shape = inputs[0].shape;
  bool fits = before.size() == shape.rank() && after.size() == shape.rank();
  std::vector<int64_t> sizes;
  for (size_t i = 0; fits && i < shape.rank(); ++i) {
    fits = Fits(mode, before[i], after[i], shape[i]);
    // Each is bounded, so that the sum cannot overflow.
    if (fits) sizes.push_back(before[i] + shape[i] + after[i]);
  }
  if (!fits) throw std::invalid_argument(attributes() + " does not fit " + shape.ToString());
  return {{inputs[0].dtype, Shape(sizes)}};
}

InputGrads Pad::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  if (mode != PadMode::kConstant) return {graph.Make<PadGrad>({*output_grads[0]}, before, after, mode)};
  return {graph.Make<Slice>({*output_grads[0]}, before, SizesOf(graph.shape(node.inputs[0])))};
}

std::string Pad::attributes() const {
  return Borders(before, after, mode) + (value == 0 ? "" : " value=" + graph::ToString(value));
}

std::vector<TensorType> PadGrad::Infer(Types inputs) const {
  graph::CheckF32(inputs, 1);
  const Shape& shape = inputs[0].shape;
  bool fits = before.size() == shape.rank() && after.size() == shape.rank() && mode != PadMode::kConstant;
  std::vector<int64_t> sizes;
  for (size_t i = 0; fits && i < shape.rank(); ++i) {
    fits = before[i] >= 0 && after[i] >= 0 && before[i] <= shape[i] && after[i] <= shape[i] - before[i];
    if (!fits) break;
    sizes.push_back(shape[i] - before[i] - after[i]);
    fits = Fits(mode, before[i], after[i], sizes.back());
  }
  if (!fits) throw std::invalid_argument(attributes() + " does not fit " + shape.ToString());
  return {{DType::kF32, Shape(sizes)}};
}

InputGrads PadGrad::Gradient(Graph& graph, const Node&, OutputGrads output_grads) const {
  return {graph.Make<Pad>({*output_grads[0]}, before, after, mode)};
}

std::string PadGrad::attributes() const {
  return Borders(before, after, mode);
}

int64_t PadSource(PadMode mode, int64_t i, int64_t before, int64_t size) {
  const int64_t at = i - before;
  if (mode == PadMode::kEdge) return std::clamp<int64_t>(at, 0, size - 1);
  return at < 0 ? -at : at >= size ? 2 * (size - 1) - at : at;
}

}  // namespace leat::ops
