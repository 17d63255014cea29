// Placement: chooses a device for each node of a graph.
//
// List scheduling by earliest finish time (Topcuoglu, Hariri and Wu 2002, "HEFT"). Nodes are taken in order
// of their longest path to the end, and each is placed on the device where it finishes first, transfers
// included. A tensor is sent once to each device. If several devices gain little, one device gets all nodes.
#pragma once

#include <string>
#include <vector>

#include "compute/engine/devices/devices.h"
#include "compute/engine/placement/costs.h"
#include "compute/graph/graph.h"

namespace leat::engine {

struct PlacementRequest {
  const graph::Graph& graph;
  const std::vector<Device>& devices;
  // Microseconds by device and node; infinite if the device has no kernel for the node, 0 if it needs none.
  const std::vector<std::vector<double>>& costs_us;
  const Rates& rates;
  int threads = 1;  // nodes that one device may run at the same time, limited by its cores
};

struct Placement {
  // By node. Irrelevant for constants and views, which are available wherever they are read. A feed is on the
  // device that reads it first.
  std::vector<uint32_t> devices;
  std::vector<double> priority;  // by node: microseconds of the longest path from its start to the end
  double finish_us = 0;          // estimated time of a run
};

// Throws std::invalid_argument if a node requires an unknown device, or one without a kernel for it. The
// message lists all such nodes with op, node, line and devices.
Placement Place(const PlacementRequest& request);

}  // namespace leat::engine
