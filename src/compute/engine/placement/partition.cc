#include "compute/engine/placement/partition.h"

#include <algorithm>
#include <limits>
#include <map>

#include "compute/engine/placement/transfer.h"
#include "compute/graph/builtin.h"

namespace leat::engine {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeIndex;
using graph::Value;

class SendKernel final : public graph::Kernel {
 public:
  SendKernel(const TransferContext& crossing, uint32_t edge, size_t bytes)
      : crossing_(crossing), edge_(edge), bytes_(bytes) {}
  void Run(const graph::KernelArgs& args) override {
    const std::byte* elements = args.inputs.empty() ? nullptr : args.inputs[0];
    Status status = crossing_.rendezvous->Send({crossing_.run, edge_}, {elements, bytes_});
    if (!status.ok()) throw RunFailed(std::move(status));
  }

 private:
  const TransferContext& crossing_;
  const uint32_t edge_;
  const size_t bytes_;
};

// Does nothing: it runs after the sender has written the tensor to its place.
class ReceiveKernel final : public graph::Kernel {
 public:
  void Run(const graph::KernelArgs&) override {}
};

class Cutter {
 public:
  Cutter(const Lowered& lowered, const Placement& placement, const std::vector<Device>& devices,
         std::vector<ChosenKernel> kernels, const std::vector<double>& costs_us,
         const TransferContext& crossing)
      : lowered_(lowered),
        graph_(lowered.graph),
        placement_(placement),
        devices_(devices),
        kernels_(std::move(kernels)),
        costs_us_(costs_us),
        crossing_(crossing),
        units_(devices.size()) {}

  Partition Run() {
    for (const Node& node : graph_.nodes()) {
      const uint32_t d = At(node);
      if (graph::NeedsKernel(*node.op) || graph::IsFeed(*node.op)) Take(node, d);
    }
    for (const auto& [old, now] : lowered_.fetches) {
      const uint32_t d = placement_.devices[now.node];
      units_[d].lowered.fetches[old] = Local(now, d);
    }
    for (const auto& [old, now] : lowered_.feeds) {
      if (now)
        units_[placement_.devices[now->node]].lowered.feeds[old] = Local(*now, placement_.devices[now->node]);
    }
    Partition partition;
    const auto empty = [](const Unit& unit) { return unit.lowered.graph.nodes().empty(); };
    for (uint32_t d = 0; d < units_.size(); ++d) {
      if (!empty(units_[d])) partition.devices.push_back(d);
    }
    std::erase_if(units_, empty);
    partition.units = std::move(units_);
    partition.edges = edges_;
    return partition;
  }

 private:
  uint32_t At(const Node& node) const { return placement_.devices[node.index]; }

  // Adds the node, with its inputs, to the unit of device d.
  NodeIndex Take(const Node& node, uint32_t d) {
    std::vector<Value> inputs;
    for (Value v : node.inputs) inputs.push_back(Local(v, d));
    std::vector<NodeIndex> control;
    for (NodeIndex c : node.control) AddControl(c, d, &control);
    std::ranges::sort(control);
    control.erase(std::unique(control.begin(), control.end()), control.end());
    const bool mine = d == At(node);
    return Add(d, node.op, std::move(inputs), std::move(control), node.name, node.where,
               mine ? std::move(kernels_[node.index]) : ChosenKernel(), costs_us_[node.index],
               placement_.priority[node.index], node.index);
  }

  NodeIndex Add(uint32_t d, std::shared_ptr<const graph::Op> op, std::vector<Value> inputs,
                std::vector<NodeIndex> control, const std::string& name, const std::string& where,
                ChosenKernel kernel, double cost_us, double priority, NodeIndex from = UINT32_MAX) {
    Unit& unit = units_[d];
    Graph& graph = unit.lowered.graph;
    std::string unique = name;
    for (int i = 1; graph.Find(unique); ++i) unique = name + "_" + std::to_string(i);
    const NodeIndex index = graph.AddExact(std::move(op), std::move(inputs), std::move(control),
                                           std::move(unique), where, devices_[d].name);
    unit.kernels.push_back(std::move(kernel));
    unit.costs_us.push_back(cost_us);
    unit.priority.push_back(priority);
    if (from != UINT32_MAX) nodes_[{from, d}] = index;
    return index;
  }

  // The value in the unit of device d, received if it comes from another device.
  Value Local(Value v, uint32_t d) {
    const Node& node = graph_.node(v);
    if (const auto it = nodes_.find({v.node, d}); it != nodes_.end()) return {it->second, v.output};
    if (graph::ConstantValue(*node.op) != nullptr || node.op->is_view()) return {Take(node, d), v.output};
    if (const auto it = received_.find({v, d}); it != received_.end()) return {it->second, 0};
    const uint32_t from = At(node);
    const Value there{nodes_.at({v.node, from}), v.output};
    const TensorType& type = graph_.type(v);
    const NodeIndex receive = Transfer(node, from, d, {there}, {}, type);
    received_[{v, d}] = receive;
    return {receive, 0};
  }

  // Adds the nodes on device d that a node there must wait for in order to run after `n`.
  void AddControl(NodeIndex n, uint32_t d, std::vector<NodeIndex>* control) {
    const Node& node = graph_.node(Value{n, 0});
    if (node.op->is_view()) {
      for (Value v : node.inputs) AddControl(v.node, d, control);
      for (NodeIndex c : node.control) AddControl(c, d, control);
      return;
    }
    if (!graph::NeedsKernel(*node.op)) return;
    if (At(node) == d) {
      control->push_back(nodes_.at({n, d}));
      return;
    }
    for (uint32_t i = 0; i < node.outputs.size(); ++i) {
      const auto it = received_.find({Value{n, i}, d});
      if (it == received_.end()) continue;
      control->push_back(it->second);
      return;
    }
    auto [it, fresh] = told_.try_emplace({n, d}, 0);
    if (fresh) it->second = Transfer(node, At(node), d, {}, {nodes_.at({n, At(node)})}, std::nullopt);
    control->push_back(it->second);
  }

  // Adds a pair of send and receive; returns the receive.
  NodeIndex Transfer(const Node& node, uint32_t from, uint32_t to, std::vector<Value> inputs,
                     std::vector<NodeIndex> control, const std::optional<TensorType>& type) {
    const uint32_t edge = edges_++;
    // A send is short and another device waits for it, so it goes first.
    constexpr double priority = std::numeric_limits<double>::infinity();
    const size_t bytes = type ? type->bytes() : 0;
    Add(from, std::make_shared<Send>(edge, devices_[to].name), std::move(inputs), std::move(control),
        node.name + "/send", node.where, {std::make_unique<SendKernel>(crossing_, edge, bytes), "engine"}, 0,
        priority);
    return Add(to, std::make_shared<Receive>(edge, devices_[from].name, type), {}, {}, node.name + "/recv",
               node.where, {std::make_unique<ReceiveKernel>(), "engine"}, 0, priority);
  }

  const Lowered& lowered_;
  const Graph& graph_;
  const Placement& placement_;
  const std::vector<Device>& devices_;
  std::vector<ChosenKernel> kernels_;
  const std::vector<double>& costs_us_;
  const TransferContext& crossing_;
  std::vector<Unit> units_;                                    // by device
  std::map<std::pair<NodeIndex, uint32_t>, NodeIndex> nodes_;  // (node, device) → node of the unit
  std::map<std::pair<Value, uint32_t>, NodeIndex> received_;   // by value and device
  std::map<std::pair<NodeIndex, uint32_t>, NodeIndex> told_;   // the same without a tensor
  uint32_t edges_ = 0;
};

}  // namespace

Partition PartitionGraph(const Lowered& lowered, const Placement& placement,
                         const std::vector<Device>& devices, std::vector<ChosenKernel> kernels,
                         const std::vector<double>& costs_us, const TransferContext& crossing) {
  return Cutter(lowered, placement, devices, std::move(kernels), costs_us, crossing).Run();
}

}  // namespace leat::engine
