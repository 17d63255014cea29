#include "compute/engine/session.h"

#include <stdexcept>

#include "base/text.h"
#include "compute/graph/builtin.h"

namespace leat::engine {
namespace {

// "node" or "node:1"
graph::Value ValueOf(const graph::Graph& graph, const std::string& name) {
  std::optional<graph::NodeIndex> node = graph.Find(name);
  uint32_t output = 0;
  if (const size_t colon = name.rfind(':'); !node && colon != std::string::npos) {
    const auto number = ToNumber<uint32_t>(name.substr(colon + 1));
    if (number) node = graph.Find(name.substr(0, colon));
    output = number.value_or(0);
  }
  if (!node || output >= graph.node(*node).outputs.size()) {
    throw std::invalid_argument("the graph has no value \"" + name + "\"");
  }
  return {*node, output};
}

const graph::Value& Find(const std::unordered_map<std::string, graph::Value>& values, std::string_view name,
                         const char* what) {
  const auto it = values.find(std::string(name));
  if (it == values.end()) throw std::invalid_argument("\"" + std::string(name) + "\" is not a " + what);
  return it->second;
}

}  // namespace

Session::Session(const graph::Graph& graph, std::vector<std::string> fetches, const PlanOptions& options) {
  std::vector<graph::Value> values;
  for (const std::string& name : fetches) {
    values.push_back(ValueOf(graph, name));
    fetch_values_.emplace(name, values.back());
  }
  for (const graph::Node& node : graph.nodes()) {
    if (graph::IsFeed(*node.op)) feed_values_.emplace(node.name, graph::Value{node.index, 0});
  }
  plan_ = Plan::Compile(graph, values, options);
}

void Session::Feed(std::string_view name, Tensor tensor) {
  const graph::Value value = Find(feed_values_, name, "feed");
  const TensorType type = plan_->At(value).type();
  if (tensor.type() != type) {
    throw std::invalid_argument("feed \"" + std::string(name) + "\" is " + type.ToString() + ", not " +
                                tensor.type().ToString());
  }
  plan_->Bind(value, tensor.raw());
  fed_.insert_or_assign(std::string(name), std::move(tensor));
}

Tensor Session::Fetch(std::string_view name) const {
  return plan_->At(Find(fetch_values_, name, "fetch"));
}

}  // namespace leat::engine
