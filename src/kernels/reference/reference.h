// The oracle: every op as the plainest loop that computes it. Other tables are compared against this one,
// which is also what computes an op that no faster table covers.
#pragma once

#include "graph/kernel.h"

namespace leat::reference {

// Immutable and alive as long as the program.
const graph::KernelTable& Kernels();

}  // namespace leat::reference
