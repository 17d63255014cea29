// Passes: functions that turn a graph into an equivalent one.
//
// A pass may change how the values in `keep` are computed, but not the values. It preserves the placeholders
// and variables that are still needed, the names of the nodes that remain, and the order of control
// dependencies.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "compute/graph/graph.h"

namespace leat::graph {

// The result of a pass: the new graph, and a map from old values to new ones.
class Rewrite {
 public:
  explicit Rewrite(const Graph& from);

  Graph graph;

  // The new value for `old`; empty if it was dropped.
  std::optional<Value> Find(Value old) const { return values_[old.node][old.output]; }
  // The same for a value that must exist, such as one in `keep`; aborts if it was dropped.
  Value At(Value old) const;

  // The rest is for passes, which walk the old graph in order.
  // Copies a node and maps its inputs and control dependencies.
  NodeIndex Copy(const Node& old);
  // Adds a node with the name, line and device of `old`, and maps `old` to it.
  NodeIndex Replace(const Node& old, std::shared_ptr<const Op> op, std::vector<Value> inputs,
                    std::vector<NodeIndex> control);
  // Maps all outputs of `old` to those of the new node `node`.
  void Map(const Node& old, NodeIndex node);
  // Maps one old value to a new one.
  void Map(Value old, Value now);
  // Translates old control dependencies: sorted, without duplicates and dropped nodes.
  std::vector<NodeIndex> MapControl(std::span<const NodeIndex> old) const;

 private:
  std::vector<std::vector<std::optional<Value>>> values_;
  std::vector<std::optional<NodeIndex>> nodes_;
};

// `keep`: the values that must exist in the new graph.
using Pass = std::function<Rewrite(const Graph& graph, std::span<const Value> keep)>;

// Drops every node that `keep` does not depend on, by inputs or control dependencies.
Rewrite Prune(const Graph& graph, std::span<const Value> keep);

// Common subexpression elimination: merges nodes of equal kind, attributes, inputs, control dependencies and
// device.
Rewrite MergeCommon(const Graph& graph, std::span<const Value> keep);

// Uses of each output of each node: the number of node inputs that read it, plus one if it is in `keep`. A
// fusion may remove a value only if it has one use.
std::vector<std::vector<uint32_t>> CountUses(const Graph& graph, std::span<const Value> keep);

}  // namespace leat::graph
