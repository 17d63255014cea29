// Lowering: from the graph that the user built to the one that is executed. For the engine, and for tools
// that display it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compute/engine/plan.h"
#include "compute/graph/graph.h"
#include "compute/graph/kernel.h"

namespace leat::engine {

// The lowered graph, and the user's feeds and fetches mapped into it.
struct Lowered {
  graph::Graph graph;
  std::map<graph::Value, std::optional<graph::Value>> feeds;  // empty: not needed
  std::map<graph::Value, graph::Value> fetches;               // without those that are feeds themselves
};

// Prunes the graph, applies the passes of `options` and folds constants.
Lowered Lower(const graph::Graph& graph, std::span<const graph::Value> fetches, const PlanOptions& options);

// The kernel of a node and the name of its table; empty if the node needs no kernel.
struct ChosenKernel {
  std::unique_ptr<graph::Kernel> kernel;
  std::string backend;
};

// The kernel for a node from the first table of this device kind that supports it.
ChosenKernel ChooseKernel(const graph::Graph& graph, const graph::Node& node, const std::string& device_kind,
                          const PlanOptions& options);

// Resolves a thread count: 0 means all usable cores.
int ThreadCount(int wanted);

}  // namespace leat::engine
