#include "kernels/reference/kernels.h"

namespace leat::reference {

void AddIndex(graph::KernelTable& /*table*/) {}

}  // namespace leat::reference
