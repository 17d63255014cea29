// Tensors as constant folding computes with them: elements widened to 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "compute/tensor/tensor.h"

namespace leat::onnx {

// The most elements of a folded constant.
constexpr int64_t kMaxFolded = int64_t{1} << 22;

// Elements widened to int64_t or double.
struct Elements {
  DType type = DType::kI64;
  Shape shape;
  std::vector<int64_t> whole;
  std::vector<double> real;

  bool is_real() const { return type == DType::kF32; }
  size_t count() const { return static_cast<size_t>(shape.elements()); }
};

// Each throws std::invalid_argument for more than kMaxFolded elements, or a type that is not supported.
void CheckCount(const Shape& shape);
Elements MakeElements(DType type, const Shape& shape);
Elements ReadElements(const Tensor& tensor);
// Throws std::invalid_argument for an element out of the range of `from.type`.
Tensor ToTensor(const Elements& from);
// With `to_bool`, every element but 0 becomes 1.
Tensor Converted(const Tensor& from, DType to, bool to_bool);
// `from`, broadcast to `shape`.
Elements Stretch(const Elements& from, const Shape& shape);

// Copies element `from` of a to element `to` of b, which has the same kind.
void CopyElement(const Elements& a, size_t from, Elements* b, size_t to);

// Calls f(i, offset) for each element i of `shape`, offset by `strides` from `begin`.
void Walk(const Shape& shape, std::span<const int64_t> strides, int64_t begin,
          const std::function<void(size_t, size_t)>& f);
// The strides of a tensor of that shape, in elements.
std::vector<int64_t> StridesOf(const Shape& shape);

}  // namespace leat::onnx
