#include "compute/ops/shape/axis.h"

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

}  // namespace leat::ops
