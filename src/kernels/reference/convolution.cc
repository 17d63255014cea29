#include "kernels/reference/kernels.h"

namespace leat::reference {

void AddConvolution(graph::KernelTable& /*table*/) {}

}  // namespace leat::reference
