// The attributes of a node, and the axes and shapes that attributes and constant inputs describe. Errors are
// std::invalid_argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "compute/onnx/file.h"

namespace leat::onnx {

// Throws std::invalid_argument. Callers put the file and the node before the message.
[[noreturn]] inline void Fail(const std::string& message) {
  throw std::invalid_argument(message);
}

// Attributes of a node. Each throws std::invalid_argument if the attribute has another type.
int64_t IntAttribute(const FileNode& node, std::string_view name, int64_t fallback);
float FloatAttribute(const FileNode& node, std::string_view name, float fallback);
std::string StringAttribute(const FileNode& node, std::string_view name, const std::string& fallback);
std::optional<std::vector<int64_t>> IntsAttribute(const FileNode& node, std::string_view name);
const Tensor* TensorAttribute(const FileNode& node, std::string_view name);

// The type of a Cast's result.
struct CastTarget {
  DType type;
  bool is_bool;
};
// Throws std::invalid_argument for a type that Leat keeps as a wider one, since its values would not be those
// of the type.
CastTarget CastTargetOf(const FileNode& node);

// The elements of an integer tensor. Throws std::invalid_argument for f32.
std::vector<int64_t> Integers(const Tensor& tensor);
// Resolves an axis; a negative one counts from the end. Throws std::invalid_argument if it is out of range.
size_t AxisOf(int64_t axis, size_t rank);
// The elements that a Slice selects along an axis of the given size.
struct SliceRange {
  int64_t begin, count, step;
};
SliceRange SliceOf(int64_t start, int64_t end, int64_t step, int64_t size);
// The sizes of the parts of a Split. `given`: its input of sizes, nullptr: parts of equal size.
std::vector<int64_t> SplitSizes(int64_t size, size_t parts, const Tensor* given);
// The result shape of Reshape. Size 0 copies the input size (unless allow_zero), -1 is inferred.
Shape ReshapeTarget(const Shape& from, std::span<const int64_t> target, bool allow_zero);
// The shape with axes of size 1 inserted or removed. Without `axes`, Squeezed removes all axes of size 1.
Shape Unsqueezed(const Shape& from, std::span<const int64_t> axes);
Shape Squeezed(const Shape& from, const std::optional<std::vector<int64_t>>& axes);

}  // namespace leat::onnx
