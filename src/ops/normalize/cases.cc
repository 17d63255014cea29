#include "ops/cases.h"
#include "ops/ops.h"

namespace leat::ops {

void AddNormalizeCases(OpCaseList& /*cases*/) {}

}  // namespace leat::ops
