#include "ops/fuse.h"

#include "ops/elementwise/relu.h"
#include "ops/elementwise/sigmoid.h"
#include "ops/elementwise/tanh.h"
#include "ops/matrix/bias_add.h"
#include "ops/matrix/dense.h"
#include "ops/matrix/matmul.h"

namespace leat::ops {
namespace {

std::optional<Activation> ActivationOf(const Op& op) {
  if (dynamic_cast<const Relu*>(&op) != nullptr) return Activation::kRelu;
  if (dynamic_cast<const Sigmoid*>(&op) != nullptr) return Activation::kSigmoid;
  if (dynamic_cast<const Tanh*>(&op) != nullptr) return Activation::kTanh;
  return std::nullopt;
}

// The nodes that become one Dense in the place of the last of them.
struct DenseMatch {
  const Node* matmul;
  const Node* bias_add;
  Activation activation;
};

class DenseMatcher {
 public:
  DenseMatcher(const Graph& graph, std::span<const Value> keep)
      : graph_(graph), uses_(graph::CountUses(graph, keep)), is_control_(graph.nodes().size()) {
    for (const Node& node : graph.nodes()) {
      for (graph::NodeIndex c : node.control) is_control_[c] = true;
    }
  }

  std::optional<DenseMatch> Match(const Node& last) const {
    const std::optional<Activation> activation = ActivationOf(*last.op);
    const Node* bias_add = activation ? Swallowed(last.inputs[0]) : &last;
    if (bias_add == nullptr || dynamic_cast<const BiasAdd*>(bias_add->op.get()) == nullptr)
      return std::nullopt;
    const Node* matmul = Swallowed(bias_add->inputs[0]);
    if (matmul == nullptr || dynamic_cast<const MatMul*>(matmul->op.get()) == nullptr) return std::nullopt;
    return DenseMatch{matmul, bias_add, activation.value_or(Activation::kNone)};
  }

 private:
  // The node of v when it has one reader and no part in control dependencies: an order that it was given or
  // gives would be lost with it.
  const Node* Swallowed(Value v) const {
    const Node& node = graph_.node(v);
    return uses_[v.node][v.output] == 1 && node.control.empty() && !is_control_[v.node] ? &node : nullptr;
  }

  const Graph& graph_;
  const std::vector<std::vector<uint32_t>> uses_;
  std::vector<bool> is_control_;
};

}  // namespace

graph::Rewrite FuseDense(const Graph& graph, std::span<const Value> keep) {
  const DenseMatcher matcher(graph, keep);
  // Backwards, so that an activation claims its bias_add before that matches by itself.
  std::vector<std::optional<DenseMatch>> matches(graph.nodes().size());
  std::vector<bool> swallowed(graph.nodes().size());
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    if (swallowed[i]) continue;
    matches[i] = matcher.Match(graph.nodes()[i]);
    if (!matches[i]) continue;
    swallowed[matches[i]->matmul->index] = true;
    if (matches[i]->bias_add->index != i) swallowed[matches[i]->bias_add->index] = true;
  }
  graph::Rewrite rewrite(graph);
  for (const Node& node : graph.nodes()) {
    if (swallowed[node.index]) continue;
    const std::optional<DenseMatch>& match = matches[node.index];
    if (!match) {
      rewrite.Copy(node);
      continue;
    }
    const auto& matmul = static_cast<const MatMul&>(*match->matmul->op);
    rewrite.Replace(node, std::make_shared<Dense>(matmul.transpose_a, matmul.transpose_b, match->activation),
                    {rewrite.At(match->matmul->inputs[0]), rewrite.At(match->matmul->inputs[1]),
                     rewrite.At(match->bias_add->inputs[1])},
                    rewrite.MapControl(node.control));
  }
  return rewrite;
}

std::vector<graph::Pass> StandardPasses() {
  return {graph::MergeCommon, FuseDense};
}

}  // namespace leat::ops
