// Passes that know ops: patterns of nodes that one kernel computes faster.
#pragma once

#include <functional>

#include "graph/pass.h"
#include "ops/matrix/dense.h"
#include "ops/op.h"

namespace leat::ops {

// matmul → bias_add → (relu | sigmoid | tanh | gelu)? becomes Dense, where nobody else needs what lies
// between. Gradients of the activations start from its output, so a training graph fuses as well as a
// predicting one.
graph::Rewrite FuseDense(const Graph& graph, std::span<const Value> keep);

// The passes that any plan should have, in order: what is there already, common subexpressions,
// then fusions.
std::vector<graph::Pass> StandardPasses();

// For fusions: what a node's neighbours may be swallowed with it.
class FusionCandidates {
 public:
  FusionCandidates(const Graph& graph, std::span<const Value> keep);
  // The node of v when it has one reader, which is to run on the same device, and no part in control
  // dependencies: an order that it was given or gives would be lost with it.
  const Node* FusableProducer(Value v) const;
  bool InControl(const Node& node) const;

 private:
  const Graph& graph_;
  const std::vector<std::vector<uint32_t>> uses_;
  std::vector<bool> is_control_;
  std::vector<bool> crosses_;  // somebody reads it who is to run elsewhere
};

// The op that computes activation(linear(a, b) + bias) from a, b and the bias; nullptr when `linear` is not
// of its kind.
using BiasFusion = std::function<std::shared_ptr<const Op>(const Op& linear, Activation activation)>;
// Puts `fusion` in the place of linear → bias_add → activation?.
graph::Rewrite FuseBias(const Graph& graph, std::span<const Value> keep, const BiasFusion& fusion);

}  // namespace leat::ops
