// Every op there is, with instances to try it on. The gradient test, the comparison of kernel tables and the
// bindings walk this list, so whoever adds an op adds a row here and cannot forget the rest.
#pragma once

#include "ops/op.h"

namespace leat::ops {

// How to draw an input so that the op is smooth around it.
struct SampleInput {
  enum class Draw {
    kUniform,       // in [low, high]
    kAwayFromZero,  // in [low, high], at least 0.1 from 0: for kinks there
    kInteger,       // whole numbers in [low, high]; no gradient is asked for by it
    kSpread,        // spaced evenly over [low, high], in any order: no two are nearly equal
  };
  TensorType type;
  float low = -2;
  float high = 2;
  Draw draw = Draw::kUniform;
};

struct OpCase {
  std::string name;  // "matmul aᵀ b": unique
  std::shared_ptr<const Op> op;
  std::vector<SampleInput> inputs;
  // How many times the op can be differentiated: 0, 1 or 2 (and more).
  int derivatives = 2;
};

const std::vector<OpCase>& OpCases();

// Elements for one input of a case, the same for the same seed.
Tensor DrawSample(const SampleInput& input, uint64_t seed);

}  // namespace leat::ops
