// A plan over several devices: one program per device; a rendezvous transfers tensors. Internal to the
// engine.
#pragma once

#include <memory>

#include "compute/engine/placement/partition.h"
#include "compute/engine/plan.h"

namespace leat::engine {

// `crossing` is the context that the partition's transfer kernels refer to. Keeps no reference to `source`.
std::unique_ptr<Plan> MakePartitionedPlan(const graph::Graph& source, Partition partition,
                                          std::unique_ptr<TransferContext> crossing,
                                          const PlanOptions& options);

}  // namespace leat::engine
