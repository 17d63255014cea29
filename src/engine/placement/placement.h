// Which device each node of a graph runs on.
//
// List scheduling by the earliest finish (Topcuoglu, Hariri and Wu 2002, "HEFT"): nodes in the order of the
// longest way from them to the end; each goes where it would be done first, after the transfers that it
// needs. A tensor travels once to each device. One device takes all when the others would hardly help.
#pragma once

#include <string>
#include <vector>

#include "engine/devices/devices.h"
#include "engine/placement/costs.h"
#include "graph/graph.h"

namespace leat::engine {

struct PlacementRequest {
  const graph::Graph& graph;
  const std::vector<Device>& devices;
  // By device, by node: microseconds; infinite where the device has no kernel for the node, 0 where there is
  // nothing to run.
  const std::vector<std::vector<double>>& costs_us;
  const Rates& rates;
  int threads = 1;  // nodes that one device runs at the same time, when it has cores for them
};

struct Placement {
  // By node. Constants and views have none of their own: they are wherever they are read; a feed is where it
  // is read first.
  std::vector<uint32_t> devices;
  std::vector<double> priority;  // by node: microseconds from its beginning to the end, on the longest way
  double finish_us = 0;          // estimated time of a run
};

// Throws std::invalid_argument when a node has to run on a device that is not there, or has no kernel for it:
// with op, node, line and devices, all at once.
Placement Place(const PlacementRequest& request);

}  // namespace leat::engine
