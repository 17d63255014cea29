// Whether the output of a network is that of an activation which a cross entropy includes.
#pragma once

#include "compute/graph/graph.h"

namespace leat::nn {

// Follows from the ops of the graph alone, for any data and weights: all elements are within [-1, 1], as
// those of a softmax, a sigmoid or a tanh are, also behind arithmetic that keeps them there; or they are
// those of a relu or log-softmax, rearranged in any way.
bool EndsWithActivation(const graph::Graph& graph, graph::Value v);

}  // namespace leat::nn
