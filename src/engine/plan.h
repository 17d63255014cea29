// A graph compiled for running: pruned, fused, its memory planned, its kernels prepared (row G3).
//
// Compile once, run many times. Feeds, variables and results may be bound to memory of the caller's, so that
// parameters arrive from the network straight in the place they are read from, and gradients leave from the place
// they were computed in. Everything else lives in one arena, planned by lifetimes.
//
// One Plan runs in one thread at a time; distinct plans are independent. A run allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/kernel.h"

namespace leat::engine {

struct PlanOptions {
  // Tables to ask for a kernel, first to last; the first that covers a node computes it.
  std::vector<const graph::KernelTable*> tables;
  // Nodes that may run at the same time. 1 (and any graph that is a mere chain or small) runs inline, without queue or
  // threads; 0 means all cores.
  int inter_op_threads = 1;
  // Threads one kernel may use; 0 means all cores.
  int intra_op_threads = 1;
  // Rewrites such as matmul + bias + relu → one kernel. Off: what the tests compare against.
  bool fuse = true;
};

class Plan {
 public:
  // Keeps what `fetches` need of `graph`. Placeholders and variables among it are the plan's feeds. Throws
  // std::invalid_argument when no table has a kernel for a node, naming op, node and line (all of them at once).
  static std::unique_ptr<Plan> Compile(const graph::Graph& graph, std::span<const graph::Value> fetches,
                                       const PlanOptions& options);
  virtual ~Plan() = default;

  // Where a feed's elements are read, or a fetch's are written, from the next run on. The memory is the caller's,
  // of the value's type and 4-byte aligned at least (64 is faster). A feed must be bound before the first run; a fetch
  // that is not bound lives in the plan. Rebinding is cheap: a pointer is set.
  virtual void Bind(graph::Value value, void* data) = 0;
  // The memory of a feed or fetch as bound now.
  virtual Tensor At(graph::Value value) const = 0;

  virtual void Run() = 0;

  virtual size_t arena_bytes() const = 0;
  // Sum of the largest set of tensors alive at once: what no plan can go below.
  virtual size_t largest_live_bytes() const = 0;
  // A line a kernel, in order of running: "dense1 onednn matmul+bias+relu f32[128, 64]".
  virtual std::string ToString() const = 0;
};

}  // namespace leat::engine
