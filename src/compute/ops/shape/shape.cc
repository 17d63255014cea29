#include "compute/ops/shape/shape.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace leat::ops {

size_t AxisOf(int axis, size_t rank) {
  const int64_t at = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
  if (at < 0 || at >= static_cast<int64_t>(rank)) {
    throw std::invalid_argument("axis " + std::to_string(axis) + " is out of range for rank " +
                                std::to_string(rank));
  }
  return static_cast<size_t>(at);
}

std::vector<int64_t> SizesOf(const Shape& shape) {
  return {shape.sizes().begin(), shape.sizes().end()};
}

std::vector<int64_t> StridesOf(const Shape& shape) {
  return BroadcastStrides(shape, shape);
}

std::vector<int64_t> Stepped(std::vector<int64_t> strides, const std::vector<int64_t>& step) {
  for (size_t i = 0; i < step.size(); ++i) strides[i] *= step[i];
  return strides;
}

int64_t OffsetOf(const Shape& shape, std::span<const int64_t> index) {
  const std::vector<int64_t> strides = StridesOf(shape);
  return std::inner_product(index.begin(), index.end(), strides.begin(), int64_t{0});
}

std::string ListOf(const std::vector<int64_t>& values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) text += (i ? "," : "") + std::to_string(values[i]);
  return text;
}

AxisView ViewAlong(const Shape& shape, size_t axis) {
  const auto sizes = shape.sizes();
  return {.outer = Shape(sizes.first(axis)).elements(),
          .size = sizes[axis],
          .inner = Shape(sizes.subspan(axis + 1)).elements()};
}

std::vector<TensorType> Reshape::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  if (inputs[0].shape.elements() != shape.elements()) {
    throw std::invalid_argument(inputs[0].shape.ToString() + " has " +
                                std::to_string(inputs[0].shape.elements()) + " elements, " +
                                shape.ToString() + " has " + std::to_string(shape.elements()));
  }
  return {{inputs[0].dtype, shape}};
}

InputGrads Reshape::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {graph.Make<Reshape>({*output_grads[0]}, graph.shape(node.inputs[0]))};
}

std::vector<TensorType> Transpose::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  const Shape& shape = inputs[0].shape;
  std::vector<bool> seen(shape.rank());
  std::vector<int64_t> sizes;
  for (int axis : permutation) {
    const auto at = static_cast<size_t>(axis);
    if (axis < 0 || at >= shape.rank() || seen[at]) break;
    seen[at] = true;
    sizes.push_back(shape[at]);
  }
  if (sizes.size() != permutation.size() || sizes.size() != shape.rank()) {
    throw std::invalid_argument(attributes() + " does not name each axis of " + shape.ToString() + " once");
  }
  return {{inputs[0].dtype, Shape(sizes)}};
}

InputGrads Transpose::Gradient(Graph& graph, const Node&, OutputGrads output_grads) const {
  std::vector<int> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i)
    inverse[static_cast<size_t>(permutation[i])] = static_cast<int>(i);
  return {graph.Make<Transpose>({*output_grads[0]}, inverse)};
}

std::string Transpose::attributes() const {
  std::string text = "permutation=";
  for (size_t i = 0; i < permutation.size(); ++i) text += (i ? "," : "") + std::to_string(permutation[i]);
  return text;
}

std::vector<TensorType> Concat::Infer(Types inputs) const {
  if (inputs.empty()) throw std::invalid_argument("takes at least one input");
  std::vector<int64_t> sizes = SizesOf(inputs[0].shape);
  const size_t at = AxisOf(axis, sizes.size());
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].dtype != inputs[0].dtype) {
      throw std::invalid_argument("inputs are " + inputs[0].ToString() + " and " + inputs[i].ToString() +
                                  "; must have the same type");
    }
    std::vector<int64_t> other = SizesOf(inputs[i].shape);
    if (other.size() == sizes.size()) {
      // Each size is below 2^40 and inputs are few, so the sum cannot overflow.
      const int64_t sum = sizes[at] + other[at];
      sizes[at] = other[at] = sum;
    }
    if (other != sizes) {
      throw std::invalid_argument(inputs[0].shape.ToString() + " and " + inputs[i].shape.ToString() +
                                  " differ along an axis other than " + std::to_string(axis));
    }
    // Checks the product before the next size is added.
    static_cast<void>(Shape(sizes));
  }
  return {{inputs[0].dtype, Shape(sizes)}};
}

InputGrads Concat::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  InputGrads grads;
  std::vector<int64_t> begin(graph.shape(*output_grads[0]).rank(), 0);
  const size_t at = AxisOf(axis, begin.size());
  for (Value input : node.inputs) {
    const Shape& shape = graph.shape(input);
    grads.push_back(graph.Make<Slice>({*output_grads[0]}, begin, SizesOf(shape)));
    begin[at] += shape[at];
  }
  return grads;
}

std::vector<TensorType> Split::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  const Shape& shape = inputs[0].shape;
  const size_t at = AxisOf(axis, shape.rank());
  std::vector<TensorType> types;
  int64_t left = shape[at];
  bool fits = !sizes.empty();
  for (int64_t size : sizes) {
    fits = fits && size >= 0 && size <= left;
    if (!fits) break;
    left -= size;
    std::vector<int64_t> piece = SizesOf(shape);
    piece[at] = size;
    types.push_back({inputs[0].dtype, Shape(piece)});
  }
  if (!fits || left != 0) {
    throw std::invalid_argument("sizes " + ListOf(sizes) + " do not add up to axis " + std::to_string(axis) +
                                " of " + shape.ToString());
  }
  return types;
}

InputGrads Split::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  std::vector<Value> parts;
  for (size_t i = 0; i < output_grads.size(); ++i) {
    parts.push_back(output_grads[i] ? *output_grads[i]
                                    : graph.Make<Constant>({}, node.outputs[i].shape, 0.0f));
  }
  return {graph.Make<Concat>(std::move(parts), axis)};
}

std::string Split::attributes() const {
  return "axis=" + std::to_string(axis) + " sizes=" + ListOf(sizes);
}

namespace {

// Size of `axis`, counted from the end; 1 if the shape has fewer axes.
int64_t SizeFromEnd(const Shape& shape, size_t axis) {
  return axis < shape.rank() ? shape[shape.rank() - 1 - axis] : 1;
}

void CheckBroadcasts(const Shape& from, const Shape& to) {
  bool fits = from.rank() <= to.rank();
  for (size_t i = 0; fits && i < from.rank(); ++i) {
    const int64_t size = SizeFromEnd(from, i);
    fits = size == 1 || size == SizeFromEnd(to, i);
  }
  if (!fits) throw std::invalid_argument(from.ToString() + " does not broadcast to " + to.ToString());
}

}  // namespace

Shape BroadcastShape(const Shape& a, const Shape& b) {
  std::vector<int64_t> sizes(std::max(a.rank(), b.rank()));
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t m = SizeFromEnd(a, i), n = SizeFromEnd(b, i);
    if (m != n && m != 1 && n != 1) {
      throw std::invalid_argument("a" + a.ToString() + " and b" + b.ToString() + " do not broadcast: sizes " +
                                  std::to_string(m) + " and " + std::to_string(n) + " differ");
    }
    sizes[sizes.size() - 1 - i] = m == 1 ? n : m;
  }
  return Shape(sizes);
}

std::vector<int64_t> BroadcastStrides(const Shape& from, const Shape& to) {
  std::vector<int64_t> strides(to.rank(), 0);
  int64_t stride = 1;
  for (size_t i = 0; i < from.rank(); ++i) {
    const int64_t size = SizeFromEnd(from, i);
    if (size != 1) strides[to.rank() - 1 - i] = stride;
    stride *= size;
  }
  return strides;
}

std::vector<TensorType> BroadcastTo::Infer(Types inputs) const {
  graph::CheckInputCount(inputs, 1);
  CheckBroadcasts(inputs[0].shape, shape);
  return {{inputs[0].dtype, shape}};
}

InputGrads BroadcastTo::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {ReduceToShape(graph, *output_grads[0], graph.shape(node.inputs[0]))};
}

std::vector<TensorType> SumTo::Infer(Types inputs) const {
  graph::CheckF32(inputs, 1);
  CheckBroadcasts(shape, inputs[0].shape);
  return {{DType::kF32, shape}};
}

InputGrads SumTo::Gradient(Graph& graph, const Node& node, OutputGrads output_grads) const {
  return {StretchToShape(graph, *output_grads[0], graph.shape(node.inputs[0]))};
}

double SumTo::flops(Types inputs, Types) const {
  return static_cast<double>(inputs[0].shape.elements());
}

Value ReduceToShape(Graph& graph, Value x, const Shape& shape) {
  return graph.shape(x) == shape ? x : graph.Make<SumTo>({x}, shape);
}

Value StretchToShape(Graph& graph, Value x, const Shape& shape) {
  return graph.shape(x) == shape ? x : graph.Make<BroadcastTo>({x}, shape);
}

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
