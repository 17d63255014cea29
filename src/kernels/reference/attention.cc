#include "kernels/reference/kernels.h"

namespace leat::reference {

void AddAttention(graph::KernelTable& /*table*/) {}

}  // namespace leat::reference
