// Fusions of convolutions and pools.
#pragma once

#include "graph/pass.h"
#include "ops/op.h"

namespace leat::ops {

// conv2d → bias_add → (relu | sigmoid | tanh)? becomes Conv2dBias, where nobody else needs what lies between.
graph::Rewrite FuseConvolution(const Graph& graph, std::span<const Value> keep);

// The gradients of a convolution by weights and by bias, two readers of one large tensor, become
// Conv2dGradWeightsBias.
graph::Rewrite FuseBiasGradient(const Graph& graph, std::span<const Value> keep);

// The gradient of an activation that a max_pool read is taken before it is spread over the windows, which
// multiplies its size: only elements that were chosen have a gradient, and the pool still holds what they
// are.
//   relu_grad(y, max_pool_grad(dp, index)) = max_pool_grad(relu_grad(p, dp), index)  where p, index =
//   max_pool(y)
// likewise sigmoid_grad and tanh_grad. y is then no longer needed.
graph::Rewrite ActivationGradBeforeUnpooling(const Graph& graph, std::span<const Value> keep);

}  // namespace leat::ops
