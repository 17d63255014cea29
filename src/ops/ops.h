// All ops, for whoever builds graphs.
#pragma once

#include "ops/abs.h"                    // IWYU pragma: export
#include "ops/add.h"                    // IWYU pragma: export
#include "ops/bias_add.h"               // IWYU pragma: export
#include "ops/broadcast.h"              // IWYU pragma: export
#include "ops/cast.h"                   // IWYU pragma: export
#include "ops/concat.h"                 // IWYU pragma: export
#include "ops/dense.h"                  // IWYU pragma: export
#include "ops/div.h"                    // IWYU pragma: export
#include "ops/exp.h"                    // IWYU pragma: export
#include "ops/log.h"                    // IWYU pragma: export
#include "ops/matmul.h"                 // IWYU pragma: export
#include "ops/mul.h"                    // IWYU pragma: export
#include "ops/neg.h"                    // IWYU pragma: export
#include "ops/reduce.h"                 // IWYU pragma: export
#include "ops/relu.h"                   // IWYU pragma: export
#include "ops/reshape.h"                // IWYU pragma: export
#include "ops/scale.h"                  // IWYU pragma: export
#include "ops/sigmoid.h"                // IWYU pragma: export
#include "ops/sigmoid_cross_entropy.h"  // IWYU pragma: export
#include "ops/sign.h"                   // IWYU pragma: export
#include "ops/slice.h"                  // IWYU pragma: export
#include "ops/softmax.h"                // IWYU pragma: export
#include "ops/softmax_cross_entropy.h"  // IWYU pragma: export
#include "ops/sqrt.h"                   // IWYU pragma: export
#include "ops/square.h"                 // IWYU pragma: export
#include "ops/squared_error.h"          // IWYU pragma: export
#include "ops/sub.h"                    // IWYU pragma: export
#include "ops/tanh.h"                   // IWYU pragma: export
#include "ops/transpose.h"              // IWYU pragma: export
