// Cuts a placed graph along devices.
//
// What crosses becomes a send in one part and a receive in the other: one pair for each tensor and
// destination, however many nodes there read it, and one without a tensor where only a control dependency
// crosses. Constants and views are not sent, each part has its own. No part waits for itself through others,
// since every edge leads from an earlier node of the whole graph to a later one.
#pragma once

#include <vector>

#include "engine/compiler.h"
#include "engine/placement/placement.h"

namespace leat::engine {

// The run that the transfer kernels of a plan are in; set before it begins.
struct TransferContext {
  Rendezvous* rendezvous = nullptr;
  uint64_t run = 0;
};

struct Partition {
  std::vector<Unit> units;        // one for each device that has something to run or feed
  std::vector<uint32_t> devices;  // by unit
  uint32_t edges = 0;
};

// `kernels`: by node of lowered.graph, for the device that it was placed on; they move to the units.
// `costs_us`: by node. `crossing` must outlive the kernels.
Partition PartitionGraph(const Lowered& lowered, const Placement& placement,
                         const std::vector<Device>& devices, std::vector<ChosenKernel> kernels,
                         const std::vector<double>& costs_us, const TransferContext& crossing);

}  // namespace leat::engine
