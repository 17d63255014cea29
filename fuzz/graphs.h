// Shared by the fuzz targets that build graphs.
#pragma once

#include <vector>

#include "compute/graph/graph.h"

namespace leat::fuzz {

// Whether the graph is small enough to run in a fuzzer.
inline bool IsSmall(const graph::Graph& graph) {
  constexpr double kMax = 1e6;
  double work = 0;
  for (const auto& node : graph.nodes()) {
    std::vector<TensorType> inputs;
    for (const auto& input : node.inputs) inputs.push_back(graph.type(input));
    work += node.op->flops(inputs, node.outputs);
    for (const auto& output : node.outputs) work += static_cast<double>(output.shape.elements());
    if (work > kMax) return false;
  }
  return true;
}

}  // namespace leat::fuzz
