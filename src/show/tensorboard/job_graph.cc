#include "show/tensorboard/job_graph.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <span>
#include <utility>

#include "base/text.h"

namespace leat::tensorboard {
namespace {

constexpr const char* kWorker = "/job:worker/task:0";

std::string Server(uint32_t index) {
  return "/job:ps/task:" + std::to_string(index);
}

// "cpu:1" of a node → "/job:worker/task:0/device:CPU:1".
std::string OnWorker(const std::string& device) {
  if (device.empty()) return kWorker;
  std::string text = kWorker;
  text += "/device:";
  for (const char c : device) text += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::vector<std::vector<int64_t>> ShapesOf(std::span<const TensorType> types) {
  std::vector<std::vector<int64_t>> shapes;
  for (const TensorType& type : types)
    shapes.emplace_back(type.shape.sizes().begin(), type.shape.sizes().end());
  return shapes;
}

class Builder {
 public:
  Builder(const nn::StepGraph& step, const std::vector<nn::VariableSpec>& variables,
          const Placement& placement, std::string_view optimizer)
      : step_(step), variables_(variables), placement_(placement), apply_("apply_" + std::string(optimizer)) {
    for (const graph::Node& node : step.graph.nodes()) names_.push_back(Unique(node.name));
  }

  Graph Build() {
    for (const graph::Node& node : step_.graph.nodes()) {
      const auto variable = std::ranges::find(step_.variables, graph::Value{node.index, 0});
      if (variable == step_.variables.end()) {
        AddOp(node);
      } else {
        AddVariable(node, static_cast<size_t>(variable - step_.variables.begin()));
      }
    }
    return std::move(graph_);
  }

 private:
  // A name that TensorBoard can parse, and that no other node has: those of imported networks may have any
  // character.
  std::string Unique(std::string name) {
    for (char& c : name) {
      if (!IsLetterOrDigit(c) && c != '_' && c != '-' && c != '.' && c != '/') c = '_';
    }
    std::string unique = name;
    for (int n = 1; !taken_.insert(unique).second; ++n) unique = name + "_" + std::to_string(n);
    return unique;
  }

  std::string Input(graph::Value value) const {
    return names_[value.node] + (value.output > 0 ? ":" + std::to_string(value.output) : "");
  }

  void AddOp(const graph::Node& node) {
    GraphNode made{.name = names_[node.index],
                   .op = std::string(node.op->kind()),
                   .device = OnWorker(node.device),
                   .shapes = ShapesOf(node.outputs)};
    for (const graph::Value input : node.inputs) made.inputs.push_back(Input(input));
    for (const graph::NodeIndex before : node.control) made.inputs.push_back("^" + names_[before]);
    if (std::string text = node.op->attributes(); !text.empty())
      made.attributes["attributes"] = std::move(text);
    if (!node.where.empty()) made.attributes["job"] = node.where;
    graph_.nodes.push_back(std::move(made));
  }

  void AddVariable(const graph::Node& node, size_t index) {
    const std::string& name = names_[node.index];
    GraphNode made{.name = name, .op = "variable", .device = kWorker, .shapes = ShapesOf(node.outputs)};
    const std::optional<std::string> gradient =
        index < step_.gradients.size() ? std::optional(Input(step_.gradients[index])) : std::nullopt;
    if (!placement_) {
      graph_.nodes.push_back(std::move(made));
      if (!gradient) return;
      const std::string reduced = Add(name + "/all_reduce", "all_reduce", {*gradient}, kWorker);
      Add(name + "/" + apply_, apply_, {name, reduced}, kWorker);
      return;
    }
    const auto placed = std::ranges::find(*placement_, variables_[index].name, &report::VariableStatus::name);
    const auto parts = placed != placement_->end() ? placed->ps : std::vector<report::VariableStatus::Part>();
    if (parts.size() < 2) {
      made.device = parts.empty() ? "" : Server(parts[0].index);
      if (!parts.empty()) made.attributes["bytes"] = std::to_string(parts[0].bytes);
      const std::string device = made.device;
      graph_.nodes.push_back(std::move(made));
      if (gradient) Add(name + "/" + apply_, apply_, {name, *gradient}, device);
      return;
    }
    made.op = "concat";
    for (const auto& part : parts) {
      const std::string device = Server(part.index);
      const std::string own = Add(name + "/ps_" + std::to_string(part.index), "variable", {}, device);
      graph_.nodes.back().attributes["bytes"] = std::to_string(part.bytes);
      if (gradient) Add(own + "/" + apply_, apply_, {own, *gradient}, device);
      made.inputs.push_back(own);
    }
    graph_.nodes.push_back(std::move(made));
  }

  // Returns the name.
  std::string Add(const std::string& name, const std::string& op, std::vector<std::string> inputs,
                  const std::string& device) {
    graph_.nodes.push_back({.name = Unique(name), .op = op, .inputs = std::move(inputs), .device = device});
    return graph_.nodes.back().name;
  }

  const nn::StepGraph& step_;
  const std::vector<nn::VariableSpec>& variables_;
  const Placement& placement_;
  const std::string apply_;
  std::set<std::string> taken_;     // names
  std::vector<std::string> names_;  // by node
  Graph graph_;
};

}  // namespace

Graph JobGraph(const nn::StepGraph& step, const std::vector<nn::VariableSpec>& variables,
               const Placement& placement, std::string_view optimizer) {
  return Builder(step, variables, placement, optimizer).Build();
}

}  // namespace leat::tensorboard
