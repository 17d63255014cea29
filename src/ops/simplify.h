// A pass that leaves out nodes which compute what is there already.
#pragma once

#include "graph/pass.h"
#include "ops/op.h"

namespace leat::ops {

// Products with 1, quotients by 1, differences from 0, sums of one; scalings by 1; two negations; reshapes of
// reshapes, transposes of transposes, and both when they change nothing; transposes that only move axes of
// size 1 become reshapes; slices, pads, broadcasts, sums and joins that are the whole of what they read. No
// result differs from before in any bit, but that a scaling which would make 0 of -0 may leave it. A node
// with a part in control dependencies stays.
graph::Rewrite Simplify(const Graph& graph, std::span<const Value> keep);

}  // namespace leat::ops
