#include "kernels/onednn/kernels.h"

namespace leat::onednn {

void AddAttention(graph::KernelTable& /*table*/) {}

}  // namespace leat::onednn
