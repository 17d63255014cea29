// The list of all ops, with test cases for each. The gradient test, the comparison of kernel tables and the
// Python bindings iterate over it, so one row here covers a new op everywhere.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

// How to draw an input so that the op is differentiable around it.
struct SampleInput {
  enum class Draw {
    kUniform,       // in [low, high]
    kAwayFromZero,  // in [low, high], at least 0.1 away from 0, for ops with a kink there
    kInteger,       // whole numbers in [low, high]; not differentiated
    kSpread,        // evenly spaced over [low, high] in random order, so that no two are nearly equal
  };
  TensorType type;
  float low = -2;
  float high = 2;
  Draw draw = Draw::kUniform;
};

struct OpCase {
  std::string name;  // unique: "matmul aᵀ b"
  std::shared_ptr<const Op> op;
  std::vector<SampleInput> inputs;
  // How many times the op can be differentiated: 0, 1, or 2 for two or more.
  int derivatives = 2;
};

const std::vector<OpCase>& OpCases();

// Random elements for one input of a case, determined by the seed.
Tensor DrawSample(const SampleInput& input, uint64_t seed);

}  // namespace leat::ops
