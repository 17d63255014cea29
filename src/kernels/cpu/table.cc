#include "kernels/cpu/table.h"

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/onednn/primitive.h"

namespace leat::onednn {
namespace {

graph::KernelTable Build() {
  graph::KernelTable table;
  table.backend = "onednn";
  table.fast_bf16 = HasBf16();
  table.factories = {
      {"matmul", MakeMatMul},
      {"batch_matmul", MakeBatchMatMul},
      {"dense", MakeDense},
      {"add_n", MakeAddN},
      {"scale", MakeScale},
      {"reduce_sum", MakeReduceSum},
      {"reduce_mean", MakeReduceMean},
      {"sum_to", MakeSumTo},
      {"softmax", MakeSoftmax},
      {"softmax_grad", MakeSoftmaxGrad},
      {"log_softmax", MakeLogSoftmax},
      {"softmax_cross_entropy", MakeSoftmaxCrossEntropy},
      {"softmax_cross_entropy_grad", MakeSoftmaxCrossEntropyGrad},
      {"broadcast_to", MakeBroadcastTo},
      {"cast", MakeCast},
      {"transpose", MakeTranspose},
  };
  AddElementwise(table);
  AddMove(table);
  AddReduce(table);
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

}  // namespace leat::onednn
