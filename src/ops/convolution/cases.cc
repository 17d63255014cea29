#include "ops/cases.h"
#include "ops/ops.h"

namespace leat::ops {

void AddConvolutionCases(OpCaseList& /*cases*/) {}

}  // namespace leat::ops
