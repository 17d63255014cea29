// Helpers for axis and size attributes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compute/tensor/shape.h"

namespace leat::ops {

// Resolves an axis; a negative one counts from the end. Throws std::invalid_argument if it is out of range
// for `rank`.
size_t AxisOf(int axis, size_t rank);

std::vector<int64_t> SizesOf(const Shape& shape);

// "1,-2,3"
std::string ListOf(const std::vector<int64_t>& values);

// A shape viewed along one axis: [outer, size, inner].
struct AxisView {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};
AxisView ViewAlong(const Shape& shape, size_t axis);

}  // namespace leat::ops
