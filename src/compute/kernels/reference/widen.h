// bf16 matrix products and convolutions through the f32 loops.
#pragma once

#include "compute/kernels/reference/kernels.h"

namespace leat::reference {

// Wraps an f32 factory to accept bf16 inputs, which the kernel converts to f32 in scratch memory.
KernelFactory Widened(std::unique_ptr<graph::Kernel> (*make)(const KernelRequest&));

}  // namespace leat::reference
