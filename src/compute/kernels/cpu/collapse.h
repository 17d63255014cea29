// Merging the axes of a loop over several tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace leat::cpu {

// Adjacent axes merged into one. `moves` has a bit for each tensor that has the axis; the others are
// broadcast, or summed, along it.
struct AxisGroup {
  size_t size;
  unsigned moves;
};
// Merges the axes of `sizes` into as few groups as possible and drops axes of size 1.
std::vector<AxisGroup> Collapse(std::span<const int64_t> sizes, std::span<const unsigned> moves);

}  // namespace leat::cpu
