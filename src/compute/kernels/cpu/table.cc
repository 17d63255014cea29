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
  AddEmbedding(table);
  AddLstm(table);
  AddGru(table);
  AddRnn(table);
  AddAttention(table);
  return table;
}

}  // namespace

const graph::KernelTable& Table() {
  static const graph::KernelTable table = Build();
  return table;
}

}  // namespace leat::cpu
