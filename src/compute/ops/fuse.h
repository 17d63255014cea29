// Fusion passes: they replace patterns of nodes by one op with a faster kernel.
#pragma once

#include <functional>

#include "compute/graph/pass.h"
#include "compute/ops/matrix/matrix.h"
#include "compute/ops/op.h"

namespace leat::ops {

// Replaces matmul → bias_add → (relu | sigmoid | tanh | gelu)? by Dense if nothing else reads the values in
// between. Most activation gradients need only the output, so training graphs are fused too. A relu behind an
// op that may make NaN of numbers, such as a logarithm, stays a node of its own, which keeps NaN.
graph::Rewrite FuseDense(const Graph& graph, std::span<const Value> keep);

// The passes for every plan, in order: simplification, common subexpressions, fusions.
std::vector<graph::Pass> StandardPasses();

// Tells which nodes a fusion may absorb.
class FusionCandidates {
 public:
  FusionCandidates(const Graph& graph, std::span<const Value> keep);
  // The node that computes v if it may be absorbed, else nullptr. It needs exactly one reader, on the same
  // device, and no control dependencies, whose order would be lost.
  const Node* FusableProducer(Value v) const;
  bool InControl(const Node& node) const;

 private:
  const Graph& graph_;
  const std::vector<std::vector<uint32_t>> uses_;
  std::vector<bool> is_control_;
  std::vector<bool> crosses_;  // has a reader on another device
};

// Returns the op that computes activation(linear(a, b) + bias) from a, b and bias, nullptr if it does not
// apply to `linear`.
using BiasFusion = std::function<std::shared_ptr<const Op>(const Op& linear, Activation activation)>;
// Replaces linear → bias_add → activation? by the op that `fusion` returns.
graph::Rewrite FuseBias(const Graph& graph, std::span<const Value> keep, const BiasFusion& fusion);

}  // namespace leat::ops
