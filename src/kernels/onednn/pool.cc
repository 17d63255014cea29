#include "kernels/onednn/kernels.h"

namespace leat::onednn {

void AddPool(graph::KernelTable& /*table*/) {}

}  // namespace leat::onednn
