// Reverse-mode automatic differentiation that adds the gradient to the graph.
#pragma once

#include <span>
#include <vector>

#include "compute/graph/graph.h"

namespace leat::graph {

// Appends nodes to `graph` that compute d loss / d v for each v in `wrt`, and returns those values in the
// same order. Each has the type of its v, and is zero if the loss does not depend on v. The result is an
// ordinary graph and can be differentiated again. Throws std::invalid_argument if `loss` is not an f32
// scalar, or if a path from `wrt` to `loss` contains an op without a gradient.
std::vector<Value> Gradients(Graph& graph, Value loss, std::span<const Value> wrt);

}  // namespace leat::graph
