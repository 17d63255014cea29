// Fusions of convolutions and pools.
#pragma once

#include "compute/graph/pass.h"
#include "compute/ops/op.h"

namespace leat::ops {

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

}  // namespace leat::ops
