// Partitions a placed graph by device.
//
// A tensor that crosses devices becomes a send op in one part and a receive op in the other, one pair per
// tensor and destination. A control dependency becomes a pair without a tensor. Constants and views are
// duplicated instead. There is no deadlock, since every edge leads from an earlier node of the whole graph to
// a later one.
#pragma once

#include <memory>
#include <vector>

#include "compute/engine/compiler.h"
#include "compute/engine/placement/placement.h"
#include "compute/engine/plan.h"

namespace leat::engine {

// The current run of a plan, for its transfer kernels; set before the run begins.
struct TransferContext {
  Rendezvous* rendezvous = nullptr;
  uint64_t run = 0;
};

struct Partition {
  std::vector<Unit> units;        // a unit for each device with nodes
  std::vector<uint32_t> devices;  // by unit
  uint32_t edges = 0;
};

// `kernels`: by node of lowered.graph, for the device that it was placed on; they are moved to the units.
// `costs_us`: by node. `crossing` must outlive the kernels.
Partition PartitionGraph(const Lowered& lowered, const Placement& placement,
                         const std::vector<Device>& devices, std::vector<ChosenKernel> kernels,
                         const std::vector<double>& costs_us, const TransferContext& crossing);

// A plan over several devices: one program per device; a rendezvous transfers tensors. Internal to the
// engine.

// `crossing` is the context that the partition's transfer kernels refer to. Keeps no reference to `source`.
std::unique_ptr<Plan> MakePartitionedPlan(const graph::Graph& source, Partition partition,
                                          std::unique_ptr<TransferContext> crossing,
                                          const PlanOptions& options);

}  // namespace leat::engine
