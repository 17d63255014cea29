#include "kernels/reference/kernels.h"

namespace leat::reference {

void AddPool(graph::KernelTable& /*table*/) {}

}  // namespace leat::reference
