#include "compute/engine/lower.h"

#include <algorithm>

#include "compute/engine/devices/devices.h"
#include "compute/graph/builtin.h"

namespace leat::engine {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

// Larger results are not folded: recomputing them is cheaper than storing them.
constexpr size_t kMaxFoldedBytes = size_t{1} << 20;

void Apply(const graph::Pass& pass, Lowered& lowered) {
  std::vector<Value> keep;
  for (const auto& [old, now] : lowered.fetches) keep.push_back(now);
  for (const auto& [old, now] : lowered.feeds) {
    // Keep feeds that are fetched; others are dropped with their last reader.
    if (lowered.fetches.contains(old)) keep.push_back(*now);
  }
  graph::Rewrite rewrite = pass(lowered.graph, keep);
  for (auto& [old, now] : lowered.fetches) now = rewrite.At(now);
  for (auto& [old, now] : lowered.feeds) {
    if (now) now = rewrite.Find(*now);
  }
  lowered.graph = std::move(rewrite.graph);
}

// Computes nodes that depend only on constants, and replaces them by their results.
class Folder {
 public:
  Folder(const Graph& graph, const PlanOptions& options)
      : graph_(graph), options_(options), is_control_(graph.nodes().size()), rewrite_(graph) {
    for (const Node& node : graph.nodes()) {
      for (graph::NodeIndex c : node.control) is_control_[c] = true;
    }
  }

  graph::Rewrite Fold() {
    for (const Node& node : graph_.nodes()) {
      roots_.push_back(node.op->is_view() ? Root(node.inputs[0]) : Value{node.index, 0});
      if (const Tensor* value = graph::ConstantValue(*node.op)) constants_[{node.index, 0}] = *value;
      if (!Foldable(node) || !Run(node)) rewrite_.Copy(node);
    }
    return std::move(rewrite_);
  }

 private:
  Value Root(Value v) const {
    const Node& node = graph_.node(v);
    return node.op->is_view() && v.output == 0 ? roots_[v.node] : v;
  }

  bool Foldable(const Node& node) const {
    size_t bytes = 0;
    for (const TensorType& type : node.outputs) bytes += type.bytes();
    return graph::NeedsKernel(*node.op) && node.control.empty() && !is_control_[node.index] &&
           bytes <= kMaxFoldedBytes &&
           std::ranges::all_of(node.inputs, [&](Value v) { return constants_.contains(Root(v)); });
  }

  // False if there is no CPU kernel for the node, or a name for its result is taken.
  bool Run(const Node& node) {
    const auto name = [&](uint32_t i) { return node.name + (i > 0 ? ":" + std::to_string(i) : ""); };
    for (uint32_t i = 1; i < node.outputs.size(); ++i) {
      if (graph_.Find(name(i))) return false;
    }
    const ChosenKernel chosen = ChooseKernel(graph_, node, "cpu", options_);
    if (!chosen.kernel) return false;
    std::vector<const std::byte*> inputs;
    for (Value v : node.inputs) inputs.push_back(constants_.at(Root(v)).raw());
    std::vector<Tensor> results;
    std::vector<std::byte*> outputs;
    for (const TensorType& type : node.outputs) outputs.push_back(results.emplace_back(type).raw());
    const Buffer scratch(chosen.kernel->scratch_bytes());
    chosen.kernel->Run({inputs, outputs, scratch.data()});
    for (uint32_t i = 0; i < results.size(); ++i) {
      const graph::NodeIndex constant = rewrite_.graph.AddExact(std::make_shared<graph::Constant>(results[i]),
                                                                {}, {}, name(i), node.where, node.device);
      rewrite_.Map({node.index, i}, {constant, 0});
      constants_[{node.index, i}] = std::move(results[i]);
    }
    return true;
  }

  const Graph& graph_;
  const PlanOptions& options_;
  std::vector<bool> is_control_;
  graph::Rewrite rewrite_;
  std::vector<Value> roots_;           // by node: the value it is a view of, or its own output 0
  std::map<Value, Tensor> constants_;  // by root
};

}  // namespace

Lowered Lower(const Graph& graph, std::span<const Value> fetches, const PlanOptions& options) {
  Lowered lowered{graph, {}, {}};
  for (const Node& node : graph.nodes()) {
    if (graph::IsFeed(*node.op)) lowered.feeds[{node.index, 0}] = Value{node.index, 0};
  }
  for (Value v : fetches) lowered.fetches[v] = v;
  Apply(graph::Prune, lowered);
  for (const graph::Pass& pass : options.passes) Apply(pass, lowered);
  if (options.fold_constants) {
    Apply([&](const Graph& g, std::span<const Value>) { return Folder(g, options).Fold(); }, lowered);
  }
  Apply(graph::Prune, lowered);
  std::erase_if(lowered.fetches, [&](const auto& fetch) { return lowered.feeds.contains(fetch.first); });
  return lowered;
}

ChosenKernel ChooseKernel(const Graph& graph, const Node& node, const std::string& device_kind,
                          const PlanOptions& options) {
  std::vector<TensorType> inputs;
  for (Value v : node.inputs) inputs.push_back(graph.type(v));
  const graph::KernelRequest request{*node.op, inputs, node.outputs, ThreadCount(options.intra_op_threads)};
  for (const graph::KernelTable* table : options.tables) {
    if (table->device_kind != device_kind) continue;
    const auto it = table->factories.find(node.op->kind());
    if (it == table->factories.end()) continue;
    if (auto kernel = it->second(request)) return {std::move(kernel), table->backend};
  }
  return {};
}

int ThreadCount(int wanted) {
  static const int cores = UsableCores();
  return wanted > 0 ? wanted : cores;
}

}  // namespace leat::engine
