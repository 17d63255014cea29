#include "onnx/attributes.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <variant>

#include "onnx/fold_elements.h"

namespace leat::onnx {
namespace {

[[noreturn]] void FailAttribute(const std::string& message) {
  throw std::invalid_argument(message);
}

}  // namespace

int64_t IntAttribute(const FileNode& node, std::string_view name, int64_t fallback) {
  const auto at = node.attributes.find(name);
  if (at == node.attributes.end()) return fallback;
  if (const auto* value = std::get_if<int64_t>(&at->second.value)) return *value;
  FailAttribute("attribute " + std::string(name) + " must be an integer");
}

float FloatAttribute(const FileNode& node, std::string_view name, float fallback) {
  const auto at = node.attributes.find(name);
  if (at == node.attributes.end()) return fallback;
  const auto* value = std::get_if<float>(&at->second.value);
  if (value == nullptr || !std::isfinite(*value))
    FailAttribute("attribute " + std::string(name) + " must be a finite number");
  return *value;
}

std::string StringAttribute(const FileNode& node, std::string_view name, const std::string& fallback) {
  const auto at = node.attributes.find(name);
  if (at == node.attributes.end()) return fallback;
  if (const auto* value = std::get_if<std::string>(&at->second.value)) return *value;
  FailAttribute("attribute " + std::string(name) + " must be a string");
}

std::optional<std::vector<int64_t>> IntsAttribute(const FileNode& node, std::string_view name) {
  const auto at = node.attributes.find(name);
  if (at == node.attributes.end()) return std::nullopt;
  if (const auto* value = std::get_if<std::vector<int64_t>>(&at->second.value)) return *value;
  FailAttribute("attribute " + std::string(name) + " must be a list of integers");
}

const Tensor* TensorAttribute(const FileNode& node, std::string_view name) {
  const auto at = node.attributes.find(name);
  if (at == node.attributes.end()) return nullptr;
  if (const auto* value = std::get_if<Tensor>(&at->second.value)) return value;
  FailAttribute("attribute " + std::string(name) + " must be a tensor");
}

CastTarget CastTargetOf(const FileNode& node) {
  const int64_t number = IntAttribute(node, "to", 0);
  const auto type = KeptAs(number);
  static constexpr std::string_view kNarrow[] = {"float16", "bfloat16", "int8", "int16", "uint16"};
  if (!type || std::ranges::find(kNarrow, TypeName(number)) != std::end(kNarrow)) {
    FailAttribute("to " + TypeName(number) +
                  " is not supported; Leat computes with float, int32, int64, uint8 and bool");
  }
  return {*type, number == kBoolNumber};
}

std::vector<int64_t> Integers(const Tensor& tensor) {
  if (tensor.dtype() == DType::kF32) FailAttribute("f32" + tensor.shape().ToString() + "; must be integers");
  return ReadElements(tensor).whole;
}

size_t AxisOf(int64_t axis, size_t rank) {
  const auto r = static_cast<int64_t>(rank);
  if (axis < -r || axis >= r) {
    FailAttribute("axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank));
  }
  return static_cast<size_t>(axis < 0 ? axis + r : axis);
}

SliceRange SliceOf(int64_t start, int64_t end, int64_t step, int64_t size) {
  if (step == 0 || step < -kMaxFolded || step > kMaxFolded)
    FailAttribute("slice step " + std::to_string(step) + " is not supported");
  const auto place = [&](int64_t at, int64_t least, int64_t most) {
    if (at < 0) at = at < -size ? least : at + size;
    return std::clamp(at, least, most);
  };
  if (step > 0) {
    const int64_t first = place(start, 0, size), last = place(end, 0, size);
    return {first, std::max<int64_t>((last - first + step - 1) / step, 0), step};
  }
  const int64_t first = place(start, -1, size - 1), last = place(end, -1, size - 1);
  const int64_t count = std::max<int64_t>((first - last - step - 1) / -step, 0);
  return {count == 0 ? 0 : first, count, step};
}

std::vector<int64_t> SplitSizes(int64_t size, size_t parts, const Tensor* given) {
  const auto count = static_cast<int64_t>(parts);
  if (count == 0) FailAttribute("has no outputs");
  std::vector<int64_t> sizes;
  if (given != nullptr) {
    sizes = Integers(*given);
  } else {
    const int64_t each = (size + count - 1) / count;
    for (int64_t i = 0; i < count; ++i) sizes.push_back(std::clamp<int64_t>(size - i * each, 0, each));
  }
  if (sizes.size() != parts) {
    FailAttribute("has " + std::to_string(sizes.size()) + " sizes, but " + std::to_string(count) +
                  " outputs");
  }
  return sizes;
}

Shape ShapeFrom(const std::vector<int64_t>& sizes) {
  return Shape(std::span<const int64_t>(sizes));
}

Shape ReshapeTarget(const Shape& from, std::span<const int64_t> target, bool allow_zero) {
  std::vector<int64_t> sizes(target.begin(), target.end());
  std::optional<size_t> rest;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0 && !allow_zero) {
      if (i >= from.rank())
        FailAttribute("size 0 of axis " + std::to_string(i) + " has no counterpart in " + from.ToString());
      sizes[i] = from[i];
    } else if (sizes[i] == -1) {
      if (rest) FailAttribute("more than one size is -1");
      rest = i;
      sizes[i] = 1;
    }
  }
  const Shape known = ShapeFrom(sizes);
  if (rest) {
    if (known.elements() == 0 || from.elements() % known.elements() != 0) {
      FailAttribute(from.ToString() + " is not divisible by " + known.ToString());
    }
    sizes[*rest] = from.elements() / known.elements();
  }
  const Shape made = ShapeFrom(sizes);
  if (made.elements() != from.elements()) {
    FailAttribute(from.ToString() + " cannot be reshaped to " + made.ToString() +
                  "; if that shape contains a fixed batch, export with a symbolic batch axis");
  }
  return made;
}

Shape Unsqueezed(const Shape& from, std::span<const int64_t> axes) {
  const size_t rank = from.rank() + axes.size();
  if (rank > Shape::kMaxRank)
    FailAttribute("result has " + std::to_string(rank) + " axes; at most " + std::to_string(Shape::kMaxRank) +
                  " are supported");
  std::vector<bool> fresh(rank);
  for (const int64_t axis : axes) {
    const size_t a = AxisOf(axis, rank);
    if (fresh[a]) FailAttribute("lists axis " + std::to_string(axis) + " twice");
    fresh[a] = true;
  }
  std::vector<int64_t> sizes;
  size_t next = 0;
  for (size_t a = 0; a < rank; ++a) sizes.push_back(fresh[a] ? 1 : from[next++]);
  return ShapeFrom(sizes);
}

Shape Squeezed(const Shape& from, const std::optional<std::vector<int64_t>>& axes) {
  std::vector<bool> gone(from.rank());
  if (axes) {
    for (const int64_t axis : *axes) {
      const size_t a = AxisOf(axis, from.rank());
      if (from[a] != 1)
        FailAttribute("axis " + std::to_string(axis) + " of " + from.ToString() + " is not of size 1");
      gone[a] = true;
    }
  } else {
    for (size_t a = 0; a < from.rank(); ++a) gone[a] = from[a] == 1;
  }
  std::vector<int64_t> sizes;
  for (size_t a = 0; a < from.rank(); ++a) {
    if (!gone[a]) sizes.push_back(from[a]);
  }
  return ShapeFrom(sizes);
}

}  // namespace leat::onnx
