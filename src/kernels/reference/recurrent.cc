#include "kernels/reference/kernels.h"

namespace leat::reference {

void AddRecurrent(graph::KernelTable& /*table*/) {}

}  // namespace leat::reference
