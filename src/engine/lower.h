// From the graph that a user built to the one whose nodes are run. For the engine, and for tools that show
// it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan.h"
#include "graph/graph.h"
#include "graph/kernel.h"

namespace leat::engine {

// A graph, and where the feeds and fetches of the user's are in it.
struct Lowered {
  graph::Graph graph;
  std::map<graph::Value, std::optional<graph::Value>> feeds;  // empty: not needed
  std::map<graph::Value, graph::Value> fetches;               // without those that are feeds themselves
};

// Pruned, rewritten by the options' passes, folded.
Lowered Lower(const graph::Graph& graph, std::span<const graph::Value> fetches, const PlanOptions& options);

// A node's kernel and the table it comes from; none where there is nothing to run.
struct ChosenKernel {
  std::unique_ptr<graph::Kernel> kernel;
  std::string backend;
};

// The first kernel that the tables for devices of that kind have for a node.
ChosenKernel ChooseKernel(const graph::Graph& graph, const graph::Node& node, const std::string& device_kind,
                          const PlanOptions& options);

// Threads that 0 ("all cores") or a number means.
int ThreadCount(int wanted);

}  // namespace leat::engine
