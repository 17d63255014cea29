#include "compute/kernels/cpu/collapse.h"

namespace leat::cpu {

std::vector<AxisGroup> Collapse(std::span<const int64_t> sizes, std::span<const unsigned> moves) {
  std::vector<AxisGroup> groups;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1) continue;
    const auto size = static_cast<size_t>(sizes[i]);
    if (!groups.empty() && groups.back().moves == moves[i]) {
      groups.back().size *= size;
    } else {
      groups.push_back({size, moves[i]});
    }
  }
  return groups;
}

}  // namespace leat::cpu
