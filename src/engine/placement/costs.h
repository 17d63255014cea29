// How long nodes take: estimated from what the machine does, replaced by what was measured.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace leat::engine {

struct Device;

// What one core does. Tests bring their own.
struct Rates {
  double flops_per_us = 0;         // f32 multiply-adds, each two
  double cached_bytes_per_us = 0;  // read and written while they stay in the core's own cache
  double memory_bytes_per_us = 0;  // the same, in main memory
  double call_us = 0;              // of a kernel that computes next to nothing
  double wake_us = 0;      // until a thread that was asleep works: what a transfer costs besides its bytes
  size_t cache_bytes = 0;  // of a core's own cache
};

// Of this machine: measured once, in the process's first call, which takes some 50 ms.
const Rates& MeasuredRates();

// The same of the cores that `device` has, measured now.
Rates MeasureRates(const Device& device);

// Microseconds by name of node, as measured by Plan::Profile; what is not in it is estimated.
using MeasuredCosts = std::map<std::string, double>;

// Microseconds of one call on one core.
double EstimateUs(const Rates& rates, const graph::Op& op, std::span<const TensorType> inputs,
                  std::span<const TensorType> outputs);
// By node; 0 where there is nothing to run (feeds, constants, views).
std::vector<double> NodeCosts(const graph::Graph& graph, const Rates& rates, const MeasuredCosts* measured);
// Microseconds until `bytes` that one device has computed are there for another of this process.
double TransferUs(const Rates& rates, size_t bytes);

}  // namespace leat::engine
