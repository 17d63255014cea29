// All ops, for whoever builds graphs.
#pragma once

#include "ops/convolution/avg_pool.h"        // IWYU pragma: export
#include "ops/convolution/conv2d.h"          // IWYU pragma: export
#include "ops/convolution/conv2d_bias.h"     // IWYU pragma: export
#include "ops/convolution/max_pool.h"        // IWYU pragma: export
#include "ops/elementwise/abs.h"             // IWYU pragma: export
#include "ops/elementwise/add.h"             // IWYU pragma: export
#include "ops/elementwise/cast.h"            // IWYU pragma: export
#include "ops/elementwise/div.h"             // IWYU pragma: export
#include "ops/elementwise/exp.h"             // IWYU pragma: export
#include "ops/elementwise/log.h"             // IWYU pragma: export
#include "ops/elementwise/mul.h"             // IWYU pragma: export
#include "ops/elementwise/neg.h"             // IWYU pragma: export
#include "ops/elementwise/relu.h"            // IWYU pragma: export
#include "ops/elementwise/scale.h"           // IWYU pragma: export
#include "ops/elementwise/sigmoid.h"         // IWYU pragma: export
#include "ops/elementwise/sign.h"            // IWYU pragma: export
#include "ops/elementwise/sqrt.h"            // IWYU pragma: export
#include "ops/elementwise/square.h"          // IWYU pragma: export
#include "ops/elementwise/sub.h"             // IWYU pragma: export
#include "ops/elementwise/tanh.h"            // IWYU pragma: export
#include "ops/loss/sigmoid_cross_entropy.h"  // IWYU pragma: export
#include "ops/loss/softmax.h"                // IWYU pragma: export
#include "ops/loss/softmax_cross_entropy.h"  // IWYU pragma: export
#include "ops/loss/squared_error.h"          // IWYU pragma: export
#include "ops/matrix/bias_add.h"             // IWYU pragma: export
#include "ops/matrix/dense.h"                // IWYU pragma: export
#include "ops/matrix/matmul.h"               // IWYU pragma: export
#include "ops/shape/broadcast.h"             // IWYU pragma: export
#include "ops/shape/concat.h"                // IWYU pragma: export
#include "ops/shape/reduce.h"                // IWYU pragma: export
#include "ops/shape/reshape.h"               // IWYU pragma: export
#include "ops/shape/slice.h"                 // IWYU pragma: export
#include "ops/shape/transpose.h"             // IWYU pragma: export
