#include "compute/kernels/reference/reference.h"

#include "compute/kernels/reference/kernels.h"

namespace leat::reference {
namespace {

graph::KernelTable Build() {
  graph::KernelTable table;
  table.backend = "reference";
  AddElementwise(table);
  AddShape(table);
  AddMatrix(table);
  AddLoss(table);
  AddIndex(table);
  AddConvolution(table);
  AddPool(table);
  AddNormalize(table);
  AddEmbedding(table);
  AddRecurrent(table);
  AddAttention(table);
  return table;
}

}  // namespace

const graph::KernelTable& Kernels() {
  static const graph::KernelTable table = Build();
  return table;
}

}  // namespace leat::reference
