// Products of bf16 by the loops for f32.
#pragma once

#include "kernels/reference/kernels.h"

namespace leat::reference {

// The same factory for inputs that are partly bf16: the kernel reads them from scratch memory as f32.
KernelFactory Widened(std::unique_ptr<graph::Kernel> (*make)(const KernelRequest&));

}  // namespace leat::reference
