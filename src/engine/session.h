// A plan driven by names: feed tensors, run, fetch tensors. For tools, tests and whoever does not count
// nanoseconds.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/plan.h"

namespace leat::engine {

// Not thread-safe.
class Session {
 public:
  // `fetches`: names of nodes, with ":1" for output 1 and so on. Throws std::invalid_argument on a name that
  // the graph does not have and on what Plan::Compile refuses. Keeps no reference to the graph.
  Session(const graph::Graph& graph, std::vector<std::string> fetches, const PlanOptions& options);

  // Reads the elements of `tensor` in each run from now on, and keeps a share of it. Throws
  // std::invalid_argument when no feed has that name or its type is another.
  void Feed(std::string_view name, Tensor tensor);
  void Run() { plan_->Run(); }
  // As of the last run; the next one writes over it.
  Tensor Fetch(std::string_view name) const;

  const Plan& plan() const { return *plan_; }

 private:
  std::unordered_map<std::string, graph::Value> feed_values_;
  std::unordered_map<std::string, graph::Value> fetch_values_;
  std::unordered_map<std::string, Tensor> fed_;
  std::unique_ptr<Plan> plan_;
};

}  // namespace leat::engine
