// Cost model: estimated duration of nodes and transfers, overridden by measurements.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compute/graph/graph.h"

namespace leat::engine {

struct Device;

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

}  // namespace leat::engine
