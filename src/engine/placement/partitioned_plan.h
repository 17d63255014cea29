// A plan over several devices: a program for each, which meet at a rendezvous. Internal to the engine.
#pragma once

#include <memory>

#include "engine/placement/partition.h"
#include "engine/plan.h"

namespace leat::engine {

// `crossing` is what the partition's kernels look at. Keeps nothing of `source`.
std::unique_ptr<Plan> MakePartitionedPlan(const graph::Graph& source, Partition partition,
                                          std::unique_ptr<TransferContext> crossing,
                                          const PlanOptions& options);

}  // namespace leat::engine
