// Rewrites of a graph before it is compiled: fusions, removed ops, bf16 products.
#pragma once

#include <functional>

#include "compute/graph/pass.h"
#include "compute/ops/matrix/matrix.h"
#include "compute/ops/op.h"

namespace leat::ops {

// Fusion passes: they replace patterns of nodes by one op with a faster kernel.

// Replaces matmul → bias_add → (relu | sigmoid | tanh | gelu)? by Dense if nothing else reads the values in
// between. Most activation gradients need only the output, so training graphs are fused too. A relu behind an
// op that may make NaN of numbers, such as a logarithm, stays a node of its own, which keeps NaN.
graph::Rewrite FuseDense(const Graph& graph, std::span<const Value> keep);

// The passes for every plan, in order: simplification, common subexpressions, fusions.
std::vector<graph::Pass> StandardPasses();

// The op of a node if it is an O, else nullptr.
template <class O>
const O* As(const Node& node) {
  return dynamic_cast<const O*>(node.op.get());
}

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

// Fusions of convolutions and pools.

// Replaces conv2d → bias_add → (relu | sigmoid | tanh)? by Conv2dBias if nothing else reads the values in
// between.
graph::Rewrite FuseConvolution(const Graph& graph, std::span<const Value> keep);

// Merges the gradients of a convolution's weights and bias, which read the same large tensor, into
// Conv2dGradWeightsBias.
graph::Rewrite FuseBiasGradient(const Graph& graph, std::span<const Value> keep);

// For an activation followed by max_pool: computes the activation's gradient on the small pooled tensor,
// before max_pool_grad spreads it over the windows. Only elements that the pool chose have a gradient, and p
// has their values:
//   relu_grad(y, max_pool_grad(dp, index)) = max_pool_grad(relu_grad(p, dp), index)  where p, index =
//   max_pool(y)
// The same holds for sigmoid_grad and tanh_grad. y is then no longer needed.
graph::Rewrite ActivationGradBeforeUnpooling(const Graph& graph, std::span<const Value> keep);

// A pass that removes nodes without effect.

// Removes x * 1, x / 1, x - 0, scaling by 1, sums of one term, double negation, and slices, pads, broadcasts,
// sums and concatenations that return their input. Merges chains of reshapes and of transposes; a transpose
// that moves only axes of size 1 becomes a reshape. Results are bitwise equal, except that a removed scaling
// may leave -0 where it would have returned 0. Nodes with control dependencies are kept.
graph::Rewrite Simplify(const Graph& graph, std::span<const Value> keep);

// Matrix products and convolutions in bf16: half the memory traffic and at least twice the arithmetic
// throughput.

// A pass that rounds the operands of matmul, dense, batch_matmul and convolutions to bf16. Sums, results and
// all other values stay f32, including variables. Each value is rounded once for all its readers. Run it
// last, after gradients and fusions.
//
// `least` is the smallest product that is worth rounding: both sides of the result have at least `least`
// elements, or a convolution has at least `least` filters and `least` / 2 channels.
graph::Pass UseBf16(int64_t least = 32);

}  // namespace leat::ops
