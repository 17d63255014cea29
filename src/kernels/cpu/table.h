// The fast kernels: matrix products through oneDNN, everything else as loops that become vector code. An
// element-wise pass over a batch takes less time than entering a oneDNN primitive would.
#pragma once

#include "graph/kernel.h"

namespace leat::onednn {

// Immutable and alive as long as the program. Covers what training a dense network needs; shapes that a
// kernel doesn't cover are left to the next table. Differs from the reference in one thing: the relu
// of a dense layer or a convolution makes 0 of NaN, as oneDNN's does. The gradient by the weights still shows
// it, being a product with what was not finite.
const graph::KernelTable& Table();

}  // namespace leat::onednn
