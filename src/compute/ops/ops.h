// Includes all ops, for code that builds graphs.
#pragma once

#include "compute/ops/activation/activation.h"    // IWYU pragma: export
#include "compute/ops/convolution/convolution.h"  // IWYU pragma: export
#include "compute/ops/elementwise/elementwise.h"  // IWYU pragma: export
#include "compute/ops/index/index.h"              // IWYU pragma: export
#include "compute/ops/loss/loss.h"                // IWYU pragma: export
#include "compute/ops/matrix/matrix.h"            // IWYU pragma: export
#include "compute/ops/normalize/normalize.h"      // IWYU pragma: export
#include "compute/ops/sequence/attention.h"       // IWYU pragma: export
#include "compute/ops/sequence/recurrent.h"       // IWYU pragma: export
#include "compute/ops/shape/reduce.h"             // IWYU pragma: export
#include "compute/ops/shape/shape.h"              // IWYU pragma: export
