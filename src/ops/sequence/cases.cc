#include "ops/cases.h"
#include "ops/ops.h"

namespace leat::ops {

void AddSequenceCases(OpCaseList& /*cases*/) {}

}  // namespace leat::ops
