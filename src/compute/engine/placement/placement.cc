#include "compute/engine/placement/placement.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>

#include "base/text.h"
#include "compute/graph/builtin.h"

namespace leat::engine {
namespace {

using graph::Node;
using graph::NodeIndex;
using graph::Value;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr uint32_t kNowhere = UINT32_MAX;
// Several devices must reduce the estimated time to this fraction of one device's, since estimates are rough.
constexpr double kWorthwhile = 0.9;

// The device that each node requires, or kNowhere. Throws std::invalid_argument if a requirement cannot be
// met.
std::vector<uint32_t> Constraints(const PlacementRequest& request) {
  std::vector<uint32_t> wanted;
  std::set<std::string> unknown;
  std::string mistakes;
  const auto mistake = [&](const Node& node, const std::string& what) {
    mistakes += (mistakes.empty() ? "[" : "; [") + std::string(node.op->kind()) + "] " + what + ", node \"" +
                node.name + "\"" + (node.where.empty() ? "" : ", " + node.where);
  };
  const std::string names = Joined(request.devices, ", ", &Device::name);
  for (const Node& node : request.graph.nodes()) {
    wanted.push_back(kNowhere);
    if (node.device.empty()) continue;
    const auto found = std::ranges::find(request.devices, node.device, &Device::name);
    const auto index = static_cast<size_t>(found - request.devices.begin());
    if (found == request.devices.end()) {
      // Report each device once: it is usually wrong for a whole layer.
      if (unknown.insert(node.device).second)
        mistake(node, "unknown device \"" + node.device + "\"; available: " + names);
    } else if (request.costs_us[index][node.index] == kNever) {
      mistake(node, "no kernel for " + (node.outputs.empty() ? "" : node.outputs[0].ToString()) + " on \"" +
                        node.device + "\"");
    } else {
      wanted.back() = static_cast<uint32_t>(index);
    }
  }
  if (!mistakes.empty()) throw std::invalid_argument(mistakes);
  return wanted;
}

// Schedules all nodes onto a subset of the devices.
class Scheduler {
 public:
  Scheduler(const PlacementRequest& request, const std::vector<uint32_t>& wanted,
            const std::vector<double>& priority, std::vector<uint32_t> devices)
      : request_(request), graph_(request.graph), wanted_(wanted), allowed_(std::move(devices)) {
    placement_.priority = priority;
    placement_.devices.assign(graph_.nodes().size(), kNowhere);
    ends_.resize(graph_.nodes().size());
    for (const Device& device : request.devices) {
      free_.emplace_back(static_cast<size_t>(std::clamp(request.threads, 1, device.threads)), 0.0);
    }
  }

  // Empty if some node can run on none of the devices.
  std::optional<Placement> Run() {
    std::vector<NodeIndex> order(graph_.nodes().size());
    std::iota(order.begin(), order.end(), 0u);
    // Inputs have at least the priority of their readers and come before them, so the order stays
    // topological.
    std::ranges::stable_sort(order, std::greater<>(), [&](NodeIndex n) { return placement_.priority[n]; });
    for (NodeIndex n : order) {
      const Node& node = graph_.nodes()[n];
      if (graph::NeedsKernel(*node.op)) {
        if (!PlaceNode(node)) return std::nullopt;
      } else if (node.op->is_view()) {
        for (NodeIndex c : node.control) ends_[n] = std::max(ends_[n], ends_[c]);
        for (Value v : node.inputs) ends_[n] = std::max(ends_[n], ends_[v.node]);
      } else if (graph::IsFeed(*node.op) && wanted_[n] != kNowhere) {
        placement_.devices[n] = wanted_[n];
      }
    }
    PlaceTheRest();
    return std::move(placement_);
  }

 private:
  // The value that v is a view of, or v.
  Value Root(Value v) const {
    while (graph_.node(v).op->is_view() && v.output == 0) v = graph_.node(v).inputs[0];
    return v;
  }

  bool PlaceNode(const Node& node) {
    uint32_t best = kNowhere;
    double best_end = kNever;
    for (uint32_t d : allowed_) {
      if (wanted_[node.index] != kNowhere && wanted_[node.index] != d) continue;
      const double end = Begin(node, d) + request_.costs_us[d][node.index];
      if (end < best_end) {
        best = d;
        best_end = end;
      }
    }
    if (best == kNowhere) return false;
    for (Value v : node.inputs) Bring(Root(v), best);
    placement_.devices[node.index] = best;
    ends_[node.index] = best_end;
    *std::ranges::min_element(free_[best]) = best_end;
    placement_.finish_us = std::max(placement_.finish_us, best_end);
    return true;
  }

  // The earliest time at which the device can start the node.
  double Begin(const Node& node, uint32_t device) const {
    double begin = *std::ranges::min_element(free_[device]);
    for (Value v : node.inputs) begin = std::max({begin, ends_[v.node], There(Root(v), device)});
    for (NodeIndex c : node.control) {
      const bool crosses = placement_.devices[c] != kNowhere && placement_.devices[c] != device;
      begin = std::max(begin, ends_[c] + (crosses ? TransferUs(request_.rates, 0) : 0));
    }
    return begin;
  }

  // The earliest time at which the value can be on the device.
  double There(Value root, uint32_t device) const {
    const uint32_t at = placement_.devices[root.node];
    if (at == device || at == kNowhere) return ends_[root.node];
    const auto travelled = arrivals_.find({root, device});
    if (travelled != arrivals_.end()) return travelled->second;
    return ends_[root.node] + TransferUs(request_.rates, graph_.type(root).bytes());
  }

  void Bring(Value root, uint32_t device) {
    uint32_t& at = placement_.devices[root.node];
    if (at == kNowhere && graph::IsFeed(*graph_.node(root).op)) at = device;
    if (at != device && at != kNowhere) arrivals_[{root, device}] = There(root, device);
  }

  // Places views with their roots, and unread feeds and constants anywhere.
  void PlaceTheRest() {
    for (const Node& node : graph_.nodes()) {
      uint32_t& at = placement_.devices[node.index];
      if (node.op->is_view()) at = placement_.devices[node.inputs[0].node];
      if (at == kNowhere) at = allowed_.front();
    }
  }

  const PlacementRequest& request_;
  const graph::Graph& graph_;
  const std::vector<uint32_t>& wanted_;
  const std::vector<uint32_t> allowed_;
  Placement placement_;
  std::vector<double> ends_;                               // by node
  std::map<std::pair<Value, uint32_t>, double> arrivals_;  // arrival times of sent values, by device
  std::vector<std::vector<double>> free_;                  // by device and thread: when it becomes free
};

// By node: its cost on the cheapest device.
std::vector<double> LeastCosts(const PlacementRequest& request) {
  std::vector<double> least(request.graph.nodes().size(), kNever);
  for (const std::vector<double>& costs : request.costs_us) {
    for (size_t n = 0; n < least.size(); ++n) least[n] = std::min(least[n], costs[n]);
  }
  return least;
}

std::vector<double> Urgency(const graph::Graph& graph, const std::vector<double>& costs) {
  std::vector<double> priority = costs, after(costs.size());
  for (size_t n = costs.size(); n-- > 0;) {
    priority[n] += after[n];
    const Node& node = graph.nodes()[n];
    for (Value v : node.inputs) after[v.node] = std::max(after[v.node], priority[n]);
    for (NodeIndex c : node.control) after[c] = std::max(after[c], priority[n]);
  }
  return priority;
}

}  // namespace

Placement Place(const PlacementRequest& request) {
  const std::vector<uint32_t> wanted = Constraints(request);
  const std::vector<double> priority = Urgency(request.graph, LeastCosts(request));
  std::vector<uint32_t> all(request.devices.size());
  std::iota(all.begin(), all.end(), 0u);
  std::optional<Placement> best = Scheduler(request, wanted, priority, all).Run();
  LEAT_CHECK(best.has_value());  // every node has a kernel somewhere
  const double several_us = best->finish_us;
  for (uint32_t d : all) {
    if (std::ranges::any_of(wanted, [d](uint32_t w) { return w != kNowhere && w != d; })) continue;
    std::optional<Placement> single = Scheduler(request, wanted, priority, {d}).Run();
    if (!single || several_us < kWorthwhile * single->finish_us) continue;
    if (best->finish_us == several_us || single->finish_us < best->finish_us) best = std::move(single);
  }
  return *std::move(best);
}

}  // namespace leat::engine
