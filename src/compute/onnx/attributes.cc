#include "compute/onnx/attributes.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "compute/onnx/fold.h"

namespace leat::onnx {
namespace {

// The attribute, which must be `what`; null if there is none.
template <class T>
const T* Given(const FileNode& node, std::string_view name, const char* what) {
  const auto at = node.attributes.find(name);
  if (at == node.attributes.end()) return nullptr;
  if (const auto* value = std::get_if<T>(&at->second.value)) return value;
  Fail("attribute " + std::string(name) + " must be " + what);
}

}  // namespace

int64_t IntAttribute(const FileNode& node, std::string_view name, int64_t fallback) {
  const auto* value = Given<int64_t>(node, name, "an integer");
  return value == nullptr ? fallback : *value;
}

float FloatAttribute(const FileNode& node, std::string_view name, float fallback) {
  constexpr const char* kWhat = "a finite number";
  const auto* value = Given<float>(node, name, kWhat);
  if (value == nullptr) return fallback;
  if (!std::isfinite(*value)) Fail("attribute " + std::string(name) + " must be " + kWhat);
  return *value;
}

std::string StringAttribute(const FileNode& node, std::string_view name, const std::string& fallback) {
  const auto* value = Given<std::string>(node, name, "a string");
  return value == nullptr ? fallback : *value;
}

std::optional<std::vector<int64_t>> IntsAttribute(const FileNode& node, std::string_view name) {
  const auto* value = Given<std::vector<int64_t>>(node, name, "a list of integers");
  return value == nullptr ? std::nullopt : std::optional(*value);
}

const Tensor* TensorAttribute(const FileNode& node, std::string_view name) {
  return Given<Tensor>(node, name, "a tensor");
}

CastTarget CastTargetOf(const FileNode& node) {
  const int64_t number = IntAttribute(node, "to", 0);
  const auto type = KeptAs(number);
  static constexpr std::string_view kNarrow[] = {"float16", "bfloat16", "int8", "int16", "uint16"};
  if (!type || std::ranges::find(kNarrow, TypeName(number)) != std::end(kNarrow)) {
    Fail("to " + TypeName(number) +
         " is not supported; Leat computes with float, int32, int64, uint8 and bool");
  }
  return {*type, number == kBoolNumber};
}

std::vector<int64_t> Integers(const Tensor& tensor) {
  if (tensor.dtype() == DType::kF32) Fail("f32" + tensor.shape().ToString() + "; must be integers");
  const Tensor whole = Converted(tensor, DType::kI64, false);
  const auto elements = whole.as<int64_t>();
  return {elements.begin(), elements.end()};
}

size_t AxisOf(int64_t axis, size_t rank) {
  const auto r = static_cast<int64_t>(rank);
  if (axis < -r || axis >= r) {
    Fail("axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank));
  }
  return static_cast<size_t>(axis < 0 ? axis + r : axis);
}

SliceRange SliceOf(int64_t start, int64_t end, int64_t step, int64_t size) {
  if (step == 0 || step < -kMaxFolded || step > kMaxFolded)
    Fail("slice step " + std::to_string(step) + " is not supported");
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
  if (count == 0) Fail("has no outputs");
  std::vector<int64_t> sizes;
  if (given != nullptr) {
    sizes = Integers(*given);
  } else {
    const int64_t each = (size + count - 1) / count;
    for (int64_t i = 0; i < count; ++i) sizes.push_back(std::clamp<int64_t>(size - i * each, 0, each));
  }
  if (sizes.size() != parts) {
    Fail("has " + std::to_string(sizes.size()) + " sizes, but " + std::to_string(count) + " outputs");
  }
  return sizes;
}

Shape ReshapeTarget(const Shape& from, std::span<const int64_t> target, bool allow_zero) {
  std::vector<int64_t> sizes(target.begin(), target.end());
  std::optional<size_t> rest;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0 && !allow_zero) {
      if (i >= from.rank())
        Fail("size 0 of axis " + std::to_string(i) + " has no counterpart in " + from.ToString());
      sizes[i] = from[i];
    } else if (sizes[i] == -1) {
      if (rest) Fail("more than one size is -1");
      rest = i;
      sizes[i] = 1;
    }
  }
  const Shape known = Shape(sizes);
  if (rest) {
    if (known.elements() == 0 || from.elements() % known.elements() != 0) {
      Fail(from.ToString() + " is not divisible by " + known.ToString());
    }
    sizes[*rest] = from.elements() / known.elements();
  }
  const Shape made = Shape(sizes);
  if (made.elements() != from.elements()) {
    Fail(from.ToString() + " cannot be reshaped to " + made.ToString() +
         "; if that shape contains a fixed batch, export with a symbolic batch axis");
  }
  return made;
}

Shape Unsqueezed(const Shape& from, std::span<const int64_t> axes) {
  const size_t rank = from.rank() + axes.size();
  if (rank > Shape::kMaxRank)
    Fail("result has " + std::to_string(rank) + " axes; at most " + std::to_string(Shape::kMaxRank) +
         " are supported");
  std::vector<bool> fresh(rank);
  for (const int64_t axis : axes) {
    const size_t a = AxisOf(axis, rank);
    if (fresh[a]) Fail("lists axis " + std::to_string(axis) + " twice");
    fresh[a] = true;
  }
  std::vector<int64_t> sizes;
  size_t next = 0;
  for (size_t a = 0; a < rank; ++a) sizes.push_back(fresh[a] ? 1 : from[next++]);
  return Shape(sizes);
}

Shape Squeezed(const Shape& from, const std::optional<std::vector<int64_t>>& axes) {
  std::vector<bool> gone(from.rank());
  if (axes) {
    for (const int64_t axis : *axes) {
      const size_t a = AxisOf(axis, from.rank());
      if (from[a] != 1) Fail("axis " + std::to_string(axis) + " of " + from.ToString() + " is not of size 1");
      gone[a] = true;
    }
  } else {
    for (size_t a = 0; a < from.rank(); ++a) gone[a] = from[a] == 1;
  }
  std::vector<int64_t> sizes;
  for (size_t a = 0; a < from.rank(); ++a) {
    if (!gone[a]) sizes.push_back(from[a]);
  }
  return Shape(sizes);
}

}  // namespace leat::onnx
