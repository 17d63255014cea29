// The list of all ops, with test cases for each. The gradient test and the comparison of kernel tables
// iterate over it, so one row in the testing.h of a family covers a new op in both.
#pragma once

#include "compute/ops/activation/testing.h"
#include "compute/ops/convolution/testing.h"
#include "compute/ops/elementwise/testing.h"
#include "compute/ops/index/testing.h"
#include "compute/ops/loss/testing.h"
#include "compute/ops/matrix/testing.h"
#include "compute/ops/normalize/testing.h"
#include "compute/ops/sequence/testing.h"
#include "compute/ops/shape/testing.h"

namespace leat::ops {

inline const std::vector<OpCase>& OpCases() {
  static const std::vector<OpCase> all_cases = [] {
    std::vector<OpCase> all;
    cases::AddArithmeticCases(all);
    cases::AddActivationCases(all);
    cases::AddLogicCases(all);
    cases::AddReductionCases(all);
    cases::AddShapeCases(all);
    cases::AddIndexCases(all);
    cases::AddMatrixCases(all);
    cases::AddLossCases(all);
    cases::AddConvolutionCases(all);
    cases::AddNormalizeCases(all);
    cases::AddSequenceCases(all);
    return all;
  }();
  return all_cases;
}

}  // namespace leat::ops
