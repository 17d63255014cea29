// Axes and sizes as attributes name them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/shape.h"

namespace leat::ops {

// The axis counted from the front when it is given from the end, as -1. Throws std::invalid_argument when
// there is none such among `rank`.
size_t AxisOf(int axis, size_t rank);

std::vector<int64_t> SizesOf(const Shape& shape);

// "1,-2,3"
std::string ListOf(const std::vector<int64_t>& values);

// A tensor seen along one axis: [outer, size, inner].
struct AxisView {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};
AxisView ViewAlong(const Shape& shape, size_t axis);

}  // namespace leat::ops
