#include "kernels/onednn/kernels.h"

namespace leat::onednn {

void AddRecurrent(graph::KernelTable& /*table*/) {}

}  // namespace leat::onednn
