// The reference backend: every op as a simple loop. Tests compare other backends with it, and it is the
// fallback for ops without a faster kernel.
#pragma once

#include "compute/graph/kernel.h"

namespace leat::reference {

// Immutable; lives as long as the program.
const graph::KernelTable& Kernels();

}  // namespace leat::reference
