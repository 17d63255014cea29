#include "compute/graph/graph.h"

#include <stdexcept>

#include "compute/graph/builtin.h"

namespace leat::graph {
namespace {

// Walks over the nodes once, in reverse order. All readers of a node are visited before it, so the gradients
// of its outputs are complete.
class ReverseWalk {
 public:
  ReverseWalk(Graph& graph, std::span<const Value> wrt) : graph_(graph), reaches_(graph.nodes().size()) {
    for (Value v : wrt) reaches_[v.node] = true;
    for (const Node& node : graph.nodes()) {
      for (Value input : node.inputs) {
        if (reaches_[input.node]) reaches_[node.index] = true;
      }
    }
  }

  void Run(Value loss) {
    contributions_.resize(loss.node + 1);
    for (NodeIndex i = 0; i <= loss.node; ++i) contributions_[i].resize(graph_.node(i).outputs.size());
    contributions_[loss.node][loss.output].push_back(graph_.MakeNamed<Constant>("grad/loss", {}, 1.0f));
    for (NodeIndex i = loss.node + 1; i-- > 0;) {
      if (reaches_[i]) Visit(graph_.node(i));
    }
  }

  // The gradient with respect to v, zeros if there is none.
  Value At(Value v) {
    if (v.node < contributions_.size()) {
      if (const std::optional<Value> sum = Sum(v)) return *sum;
    }
    if (graph_.type(v).dtype != DType::kF32) {
      throw std::invalid_argument("no gradient with respect to \"" + graph_.node(v).name +
                                  "\": its type is " + graph_.type(v).ToString());
    }
    return graph_.MakeNamed<Constant>("grad/zeros", {}, graph_.shape(v), 0.0f);
  }

 private:
  // The sum of all contributions to v; replaces them, so that it is added once.
  std::optional<Value> Sum(Value v) {
    std::vector<Value>& parts = contributions_[v.node][v.output];
    if (parts.empty()) return std::nullopt;
    if (parts.size() > 1) {
      const Node& node = graph_.node(v);
      Graph::Scope scope(graph_, "grad/" + node.name, node.where, node.device);
      parts = {graph_.Make<AddN>(parts)};
    }
    return parts[0];
  }

  void Visit(const Node& node) {
    if (node.inputs.empty()) return;
    std::vector<std::optional<Value>> output_grads;
    bool any = false;
    for (uint32_t i = 0; i < node.outputs.size(); ++i) {
      output_grads.push_back(Sum({node.index, i}));
      any = any || output_grads.back().has_value();
    }
    if (!any) return;
    bool wanted = false;
    for (Value input : node.inputs) wanted = wanted || reaches_[input.node];
    if (!wanted) return;

    std::vector<std::optional<Value>> grads;
    {
      Graph::Scope scope(graph_, "grad/" + node.name, node.where, node.device);
      grads = node.op->Gradient(graph_, node, output_grads);
    }
    LEAT_CHECK(grads.size() == node.inputs.size());
    for (size_t i = 0; i < grads.size(); ++i) {
      const Value input = node.inputs[i];
      if (!grads[i] || !reaches_[input.node]) continue;
      LEAT_CHECK(graph_.type(*grads[i]) == graph_.type(input));
      contributions_[input.node][input.output].push_back(*grads[i]);
    }
  }

  Graph& graph_;
  std::vector<bool> reaches_;  // by node: depends on, or is, a value of `wrt`
  std::vector<std::vector<std::vector<Value>>> contributions_;  // by node, output
};

}  // namespace

std::vector<Value> Gradients(Graph& graph, Value loss, std::span<const Value> wrt) {
  const TensorType& type = graph.type(loss);
  if (type != TensorType{}) {
    throw std::invalid_argument("the loss \"" + graph.node(loss).name + "\" is " + type.ToString() +
                                "; gradients start from an f32 scalar");
  }
  ReverseWalk walk(graph, wrt);
  walk.Run(loss);
  std::vector<Value> grads;
  for (Value v : wrt) grads.push_back(walk.At(v));
  return grads;
}

}  // namespace leat::graph
