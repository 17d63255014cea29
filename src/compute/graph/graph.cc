#include "compute/graph/graph.h"

#include <stdexcept>

namespace leat::graph {

namespace {

// [kind] message, node "name", where
[[noreturn]] void Fail(const Op& op, std::string_view message, std::string_view name,
                       std::string_view where) {
  std::string text =
      "[" + std::string(op.kind()) + "] " + std::string(message) + ", node \"" + std::string(name) + "\"";
  if (!where.empty()) text += ", " + std::string(where);
  throw std::invalid_argument(text);
}

}  // namespace

std::vector<std::optional<Value>> Op::Gradient(Graph&, const Node& node,
                                               std::span<const std::optional<Value>>) const {
  Fail(*this, "has no gradient", node.name, node.where);
}

double Op::flops(std::span<const TensorType>, std::span<const TensorType> outputs) const {
  double sum = 0;
  for (const TensorType& type : outputs) sum += static_cast<double>(type.shape.elements());
  return sum;
}

Graph::Scope::Scope(Graph& graph, std::string_view name, std::string_view where, std::string_view device)
    : graph_(graph), old_prefix_(graph.prefix_), old_where_(graph.where_), old_device_(graph.device_) {
  if (!name.empty()) graph_.prefix_ += std::string(name) + "/";
  if (!where.empty()) graph_.where_ = where;
  if (!device.empty()) graph_.device_ = device;
}

Graph::Scope::~Scope() {
  graph_.prefix_ = std::move(old_prefix_);
  graph_.where_ = std::move(old_where_);
  graph_.device_ = std::move(old_device_);
}

std::string Graph::UniqueName(std::string_view name) const {
  std::string unique(name);
  for (int i = 1; by_name_.contains(unique); ++i) unique = std::string(name) + "_" + std::to_string(i);
  return unique;
}

Value Graph::Add(std::shared_ptr<const Op> op, std::vector<Value> inputs, std::string_view name,
                 std::vector<NodeIndex> control) {
  std::string unique = UniqueName(prefix_ + std::string(name.empty() ? op->kind() : name));
  return {AddExact(std::move(op), std::move(inputs), std::move(control), std::move(unique), where_, device_),
          0};
}

NodeIndex Graph::AddExact(std::shared_ptr<const Op> op, std::vector<Value> inputs,
                          std::vector<NodeIndex> control, std::string name, std::string where,
                          std::string device) {
  const auto index = static_cast<NodeIndex>(nodes_.size());
  std::vector<TensorType> types;
  for (Value v : inputs) {
    LEAT_CHECK(v.node < index && v.output < nodes_[v.node].outputs.size());
    types.push_back(type(v));
  }
  for (NodeIndex c : control) LEAT_CHECK(c < index);
  std::vector<TensorType> outputs;
  try {
    outputs = op->Infer(types);
  } catch (const std::invalid_argument& e) {
    Fail(*op, e.what(), name, where);
  }
  const bool fresh = by_name_.emplace(name, index).second;
  LEAT_CHECK(fresh);
  nodes_.push_back({index, std::move(name), std::move(where), std::move(op), std::move(inputs),
                    std::move(control), std::move(device), std::move(outputs)});
  return index;
}

std::optional<NodeIndex> Graph::Find(std::string_view name) const {
  const auto it = by_name_.find(std::string(name));
  if (it == by_name_.end()) return std::nullopt;
  return it->second;
}

std::string Graph::ToString() const {
  std::string text;
  for (const Node& node : nodes_) {
    text += node.name + " = " + std::string(node.op->kind()) + "(";
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value v = node.inputs[i];
      text += (i ? ", " : "") + nodes_[v.node].name;
      if (v.output != 0) text += ":" + std::to_string(v.output);
    }
    text += ")";
    if (std::string attributes = node.op->attributes(); !attributes.empty()) text += " " + attributes;
    for (size_t i = 0; i < node.control.size(); ++i) {
      text += (i ? ", " : " after ") + nodes_[node.control[i]].name;
    }
    if (!node.device.empty()) text += " on " + node.device;
    for (size_t i = 0; i < node.outputs.size(); ++i) text += (i ? ", " : " : ") + node.outputs[i].ToString();
    text += "\n";
  }
  return text;
}

}  // namespace leat::graph
