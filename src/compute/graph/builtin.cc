#include "compute/graph/builtin.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <stdexcept>

#include "base/bytes.h"
#include "base/encoding/printable.h"
#include "base/text.h"

namespace leat::graph {
namespace {

constexpr size_t kPrintedElements = 4;

Tensor Filled(const Shape& shape, float fill) {
  Tensor tensor(DType::kF32, shape);
  // New memory is already zero, and untouched pages cost nothing.
  if (std::bit_cast<uint32_t>(fill) != 0) std::ranges::fill(tensor.as<float>(), fill);
  return tensor;
}

}  // namespace

void CheckInputCount(std::span<const TensorType> inputs, size_t count) {
  if (inputs.size() == count) return;
  throw std::invalid_argument("takes " + Plural(count, "input") + ", not " + std::to_string(inputs.size()));
}

void CheckTypes(std::span<const TensorType> inputs, DType type, std::optional<size_t> count) {
  if (count) CheckInputCount(inputs, *count);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype == type) continue;
    throw std::invalid_argument("input " + std::to_string(i) + " is " + inputs[i].ToString() + "; must be " +
                                std::string(Name(type)));
  }
}

std::string ToString(float value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::vector<TensorType> Placeholder::Infer(std::span<const TensorType> inputs) const {
  CheckInputCount(inputs, 0);
  return {type};
}

std::vector<TensorType> Variable::Infer(std::span<const TensorType> inputs) const {
  CheckInputCount(inputs, 0);
  return {type};
}

Constant::Constant(const Shape& shape, float fill) : value(Filled(shape, fill)) {}

std::vector<TensorType> Constant::Infer(std::span<const TensorType> inputs) const {
  CheckInputCount(inputs, 0);
  return {value.type()};
}

std::string Constant::attributes() const {
  if (value.dtype() == DType::kF32) {
    const auto elements = value.as<const float>();
    const auto bits = [](float x) { return std::bit_cast<uint32_t>(x); };
    const auto same = [&](float x) { return bits(x) == bits(elements[0]); };
    if (!elements.empty() && std::ranges::all_of(elements, same)) return "value=" + ToString(elements[0]);
    if (elements.size() <= kPrintedElements) {
      return "values=[" + Joined(elements, ", ", [](float x) { return ToString(x); }) + "]";
    }
  }
  return "checksum=" + ToHex(Checksum({value.raw(), value.bytes()}));
}

std::vector<TensorType> AddN::Infer(std::span<const TensorType> inputs) const {
  if (inputs.empty()) throw std::invalid_argument("takes at least one input");
  CheckF32(inputs);
  for (const TensorType& type : inputs) {
    if (type.shape == inputs[0].shape) continue;
    throw std::invalid_argument("shapes " + inputs[0].shape.ToString() + " and " + type.shape.ToString() +
                                " differ");
  }
  return {inputs[0]};
}

std::vector<std::optional<Value>> AddN::Gradient(Graph&, const Node& node,
                                                 std::span<const std::optional<Value>> output_grads) const {
  return std::vector<std::optional<Value>>(node.inputs.size(), output_grads[0]);
}

double AddN::flops(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  return static_cast<double>(inputs.size()) * static_cast<double>(outputs[0].shape.elements());
}

bool IsFeed(const Op& op) {
  return dynamic_cast<const Placeholder*>(&op) != nullptr || dynamic_cast<const Variable*>(&op) != nullptr;
}

bool NeedsKernel(const Op& op) {
  return !IsFeed(op) && ConstantValue(op) == nullptr && !op.is_view();
}

const Tensor* ConstantValue(const Op& op) {
  const auto* constant = dynamic_cast<const Constant*>(&op);
  return constant == nullptr ? nullptr : &constant->value;
}

}  // namespace leat::graph
