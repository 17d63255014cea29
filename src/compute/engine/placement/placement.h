// Placement: chooses a device for each node of a graph.
//
// List scheduling by earliest finish time (Topcuoglu, Hariri and Wu 2002, "HEFT"). Nodes are taken in order
// of their longest path to the end, and each is placed on the device where it finishes first, transfers
// included. A tensor is sent once to each device. If several devices gain little, one device gets all nodes.
//
// Costs are those of a model: estimated duration of nodes and transfers, overridden by measurements.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compute/engine/devices/devices.h"
#include "compute/graph/graph.h"

namespace leat::engine {

// Performance of one core. Tests supply their own.
struct Rates {
  double flops_per_us = 0;         // f32; a multiply-add counts as two
  double cached_bytes_per_us = 0;  // read and written, in the core's own cache
  double memory_bytes_per_us = 0;  // read and written, in main memory
  double call_us = 0;              // overhead of one kernel call
  double wake_us = 0;              // to wake a sleeping thread: the fixed cost of a transfer
  size_t cache_bytes = 0;          // size of a core's own cache
};

// Rates of this machine. The first call in a process measures them and takes about 50 ms. Thread-safe.
const Rates& MeasuredRates();

// Measures the rates of the cores of `device`.
Rates MeasureRates(const Device& device);

// Microseconds by node name, as measured by Plan::Profile. Costs of other nodes are estimated.
using MeasuredCosts = std::map<std::string, double>;

// Estimated microseconds of one run of the op on one core.
double EstimateUs(const Rates& rates, const graph::Op& op, std::span<const TensorType> inputs,
                  std::span<const TensorType> outputs);
// Costs in microseconds by node; 0 for nodes without a kernel (feeds, constants, views).
std::vector<double> NodeCosts(const graph::Graph& graph, const Rates& rates, const MeasuredCosts* measured);
// Microseconds to transfer `bytes` from one device to another in this process.
double TransferUs(const Rates& rates, size_t bytes);

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
