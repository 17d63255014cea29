// Reverse-mode gradients, graph to graph.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace leat::graph {

// Appends to `graph` the nodes that compute d loss / d v for each v of `wrt` and returns them in that order,
// each of the type of its v (zeros where the loss does not depend on v). `loss` is an f32 scalar. Since the
// gradient is a graph again, it can be differentiated again. Throws std::invalid_argument naming the node
// when the way from `wrt` to `loss` leads through an op that has no gradient.
std::vector<Value> Gradients(Graph& graph, Value loss, std::span<const Value> wrt);

}  // namespace leat::graph
