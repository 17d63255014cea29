// Passes: a graph in, an equivalent graph out.
//
// A pass never changes what the kept values are, only how they are computed. It keeps placeholders and
// variables that are still needed as they are, names of nodes that it keeps, and the order of control
// dependencies.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace leat::graph {

// The graph that a pass made, and where the values of the one it read are now.
class Rewrite {
 public:
  explicit Rewrite(const Graph& from);

  Graph graph;

  // Where `old` is computed now; empty when nobody does any more.
  std::optional<Value> Find(Value old) const { return values_[old.node][old.output]; }
  // The same for a value that the pass was told to keep.
  Value At(Value old) const;

  // For passes, which walk the old graph in order:
  // copies a node with its inputs and control dependencies mapped.
  NodeIndex Copy(const Node& old);
  // Puts a node in the place of `old`, under its name and line, on its device.
  NodeIndex Replace(const Node& old, std::shared_ptr<const Op> op, std::vector<Value> inputs,
                    std::vector<NodeIndex> control);
  // Says that all outputs of `old` are those of the new node `node`.
  void Map(const Node& old, NodeIndex node);
  // Says that one output of an old node is `now`.
  void Map(Value old, Value now);
  // Old control dependencies as new ones, sorted, without doubles and dropped nodes.
  std::vector<NodeIndex> MapControl(std::span<const NodeIndex> old) const;

 private:
  std::vector<std::vector<std::optional<Value>>> values_;
  std::vector<std::optional<NodeIndex>> nodes_;
};

// `keep`: the values that must survive.
using Pass = std::function<Rewrite(const Graph& graph, std::span<const Value> keep)>;

// Drops what `keep` does not need, by inputs or control dependencies.
Rewrite Prune(const Graph& graph, std::span<const Value> keep);

// Computes equal nodes once: of equal kind, attributes, inputs, control dependencies and device.
Rewrite MergeCommon(const Graph& graph, std::span<const Value> keep);

// For each output of each node, how many inputs of nodes read it, plus one when it is to be kept: what a
// fusion asks before it swallows a value.
std::vector<std::vector<uint32_t>> CountUses(const Graph& graph, std::span<const Value> keep);

}  // namespace leat::graph
