#include "compute/kernels/cpu/table.h"

#include "compute/kernels/cpu/kernels.h"

namespace leat::cpu {
namespace {

graph::KernelTable Build() {
  graph::KernelTable table;
  table.backend = "cpu";
  table.fast_bf16 = HasBf16();
  AddMatMul(table);
  AddElementwise(table);
  AddMove(table);
  AddReduce(table);
  AddSoftmax(table);
  AddIndex(table);
  AddConvolution(table);
  AddPool(table);
  AddNormalize(table);
  AddLstm(table);
  AddGru(table);
  AddRnn(table);
  AddAttention(table);
  return table;
}

}  // namespace

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

const graph::KernelTable& Table() {
  static const graph::KernelTable table = Build();
  return table;
}

}  // namespace leat::cpu
