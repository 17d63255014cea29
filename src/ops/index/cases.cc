#include "ops/cases.h"
#include "ops/ops.h"

namespace leat::ops {

void AddIndexCases(OpCaseList& /*cases*/) {}

}  // namespace leat::ops
