// A plan with feeds and fetches by name, for tools and tests. Plan is faster.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compute/engine/plan.h"

namespace leat::engine {

// Not thread-safe.
class Session {
 public:
  // `fetches`: names of nodes, with ":1" for output 1 and so on. Throws std::invalid_argument for an unknown
  // name, or as Plan::Compile does. Keeps no reference to the graph.
  Session(const graph::Graph& graph, std::vector<std::string> fetches, const PlanOptions& options);

  // Uses `tensor` in all later runs and keeps it alive. Throws std::invalid_argument if there is no such feed
  // or the type differs.
  void Feed(std::string_view name, Tensor tensor);
  void Run() { plan_->Run(); }
  // The result of the last run. The next run overwrites it.
  Tensor Fetch(std::string_view name) const;

  const Plan& plan() const { return *plan_; }

 private:
  std::unordered_map<std::string, graph::Value> feed_values_;
  std::unordered_map<std::string, graph::Value> fetch_values_;
  std::unordered_map<std::string, Tensor> fed_;
  std::unique_ptr<Plan> plan_;
};

}  // namespace leat::engine
