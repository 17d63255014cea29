// Nodes of a file whose inputs are all known: computed while it is read, as exporters write shapes as small
// graphs (Shape → Gather → Concat → Reshape).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "onnx/file.h"

namespace leat::onnx {

// What a node makes of those inputs (nullptr: left out); empty when it is not one of the ops that are folded.
// Whole numbers are computed in 64 bits, and what does not fit, is out of bounds or divides by zero throws
// std::invalid_argument, as does a result of more than kMaxFolded elements.
std::optional<Tensor> Fold(const FileNode& node, std::span<const Tensor* const> inputs);

constexpr int64_t kMaxFolded = int64_t{1} << 22;

// Attributes of a node; each throws std::invalid_argument when it is there with another type.
int64_t IntAttribute(const FileNode& node, std::string_view name, int64_t fallback);
float FloatAttribute(const FileNode& node, std::string_view name, float fallback);
std::string StringAttribute(const FileNode& node, std::string_view name, const std::string& fallback);
std::optional<std::vector<int64_t>> IntsAttribute(const FileNode& node, std::string_view name);
const Tensor* TensorAttribute(const FileNode& node, std::string_view name);

// The elements of a tensor of whole numbers.
std::vector<int64_t> Integers(const Tensor& tensor);
// An axis of a tensor of that rank, counted from the end when negative.
size_t AxisOf(int64_t axis, size_t rank);
// Those of a Slice: where it begins, how many, and in which steps, for an axis of that size.
struct SliceRange {
  int64_t begin, count, step;
};
SliceRange SliceOf(int64_t start, int64_t end, int64_t step, int64_t size);
// The shape that Reshape makes of `from`: 0 keeps a size (unless allow_zero), -1 takes what is left.
Shape ReshapeTarget(const Shape& from, std::span<const int64_t> target, bool allow_zero);
// The shape with axes of size 1 put in, or taken out; `axes` empty: all of size 1.
Shape Unsqueezed(const Shape& from, std::span<const int64_t> axes);
Shape Squeezed(const Shape& from, const std::optional<std::vector<int64_t>>& axes);

}  // namespace leat::onnx
