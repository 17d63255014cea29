#include "compute/graph/pass.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "compute/graph/builtin.h"

namespace leat::graph {

Rewrite::Rewrite(const Graph& from) : nodes_(from.nodes().size()) {
  values_.reserve(from.nodes().size());
  for (const Node& node : from.nodes()) values_.emplace_back(node.outputs.size());
}

Value Rewrite::At(Value old) const {
  const std::optional<Value> now = Find(old);
  LEAT_CHECK(now.has_value());
  return *now;
}

NodeIndex Rewrite::Copy(const Node& old) {
  std::vector<Value> inputs;
  for (Value v : old.inputs) inputs.push_back(At(v));
  return Replace(old, old.op, std::move(inputs), MapControl(old.control));
}

NodeIndex Rewrite::Replace(const Node& old, std::shared_ptr<const Op> op, std::vector<Value> inputs,
                           std::vector<NodeIndex> control) {
  const NodeIndex node =
      graph.AddExact(std::move(op), std::move(inputs), std::move(control), old.name, old.where, old.device);
  Map(old, node);
  return node;
}

void Rewrite::Map(const Node& old, NodeIndex node) {
  nodes_[old.index] = node;
  for (uint32_t i = 0; i < old.outputs.size(); ++i) values_[old.index][i] = Value{node, i};
}

void Rewrite::Map(Value old, Value now) {
  nodes_[old.node] = now.node;
  values_[old.node][old.output] = now;
}

std::vector<NodeIndex> Rewrite::MapControl(std::span<const NodeIndex> old) const {
  std::vector<NodeIndex> control;
  for (NodeIndex c : old) {
    if (nodes_[c]) control.push_back(*nodes_[c]);
  }
  std::ranges::sort(control);
  control.erase(std::unique(control.begin(), control.end()), control.end());
  return control;
}

Rewrite Prune(const Graph& graph, std::span<const Value> keep) {
  std::vector<bool> needed(graph.nodes().size());
  for (Value v : keep) needed[v.node] = true;
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (Value v : graph.nodes()[i].inputs) needed[v.node] = true;
    for (NodeIndex c : graph.nodes()[i].control) needed[c] = true;
  }
  Rewrite rewrite(graph);
  for (const Node& node : graph.nodes()) {
    if (needed[node.index]) rewrite.Copy(node);
  }
  return rewrite;
}

Rewrite MergeCommon(const Graph& graph, std::span<const Value>) {
  using Key = std::tuple<std::string_view, std::string, std::vector<Value>, std::vector<NodeIndex>>;
  std::map<Key, NodeIndex> seen;
  Rewrite rewrite(graph);
  for (const Node& node : graph.nodes()) {
    if (IsFeed(*node.op)) {
      rewrite.Copy(node);
      continue;
    }
    std::vector<Value> inputs;
    for (Value v : node.inputs) inputs.push_back(rewrite.At(v));
    std::string attributes = node.op->attributes() + "@" + node.device;
    // Constants of equal value but different shape differ only in their type.
    for (const TensorType& type : node.outputs) attributes.append(" ").append(type.ToString());
    Key key{node.op->kind(), std::move(attributes), std::move(inputs), rewrite.MapControl(node.control)};
    const auto [it, fresh] = seen.try_emplace(std::move(key), 0);
    if (fresh) {
      it->second = rewrite.Copy(node);
    } else {
      rewrite.Map(node, it->second);
    }
  }
  return rewrite;
}

std::vector<std::vector<uint32_t>> CountUses(const Graph& graph, std::span<const Value> keep) {
  std::vector<std::vector<uint32_t>> uses;
  for (const Node& node : graph.nodes()) uses.emplace_back(node.outputs.size());
  for (const Node& node : graph.nodes()) {
    for (Value v : node.inputs) ++uses[v.node][v.output];
  }
  for (Value v : keep) ++uses[v.node][v.output];
  return uses;
}

}  // namespace leat::graph
