// A graph compiled for running: pruned, fused, its memory planned, its kernels prepared.
//
// Compile once, run many times. Feeds, variables and results may be bound to memory of the caller's, so that
// parameters arrive from the network straight in the place they are read from, and gradients leave from the
// place they were computed in. Everything else lives in one arena, planned by lifetimes: by the
// order of running inline; when nodes may run at the same time, by dependencies, so that only what these keep
// apart shares memory.
//
// On a machine with several devices, nodes are placed on them by their costs (placement/placement.h), and the
// graph is cut where tensors cross (placement/partition.h). The results keep their bits, whatever runs where.
//
// One Plan runs in one thread at a time; distinct plans are independent. A run allocates nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/devices/devices.h"
#include "engine/placement/costs.h"
#include "engine/run/rendezvous.h"
#include "graph/graph.h"
#include "graph/kernel.h"
#include "graph/pass.h"

namespace leat::engine {

struct PlanOptions {
  // Tables to ask for a kernel, first to last; the first that covers a node computes it.
  std::vector<const graph::KernelTable*> tables;
  // Rewrites, in this order, such as matmul + bias + relu → one kernel (ops::StandardPasses()).
  std::vector<graph::Pass> passes;
  // Nodes that may run at the same time; 0 means all cores. 1, and any graph that is a mere chain or small,
  // runs inline, without queue or threads.
  int inter_op_threads = 1;
  // Threads one kernel may use; 0 means all cores.
  int intra_op_threads = 1;
  // A run estimated to be shorter than this stays inline, since waking a thread costs some of it.
  double inline_below_us = 50;
  // The devices to use (Discover()). None: the whole machine is one device, "cpu:0", threads run on any core.
  std::shared_ptr<const Machine> machine;
  // What nodes cost: as measured (Plan::Profile), else estimated from these rates; none: MeasuredRates().
  std::shared_ptr<const MeasuredCosts> costs;
  std::shared_ptr<const Rates> rates;
  // A run over several devices that takes longer is given up: what it waits for does not come.
  std::chrono::milliseconds run_limit = std::chrono::minutes(10);
  // What carries tensors between devices, made for so many edges; none: LocalRendezvous.
  std::function<std::unique_ptr<Rendezvous>(size_t edges)> make_rendezvous;
  // Compute what depends on constants alone once, when compiling.
  bool fold_constants = true;
  // Tensors whose lives don't overlap share memory. Off: what the tests compare against.
  bool share_memory = true;
};

// One kernel of a plan and what a call of it takes.
struct StepTime {
  std::string name;  // of its node
  std::string kind;  // of its op
  std::string backend;
  std::string device;
  double us = 0;
  double flops = 0;
  double bytes = 0;  // read and written
  std::string text;  // its line of Plan::ToString
};

// A run over several devices that did not end: what carries tensors failed, or time ran out.
class RunFailed : public std::runtime_error {
 public:
  explicit RunFailed(Status s) : std::runtime_error(s.ToString()), status(std::move(s)) {}
  const Status status;
};

class Plan {
 public:
  // Keeps what `fetches` need of `graph`. Placeholders and variables among it are the plan's feeds. Throws
  // std::invalid_argument when no table has a kernel for a node, naming op, node and line (all of them at
  // once), or a node has to run on a device that is not there or has no kernel for it.
  static std::unique_ptr<Plan> Compile(const graph::Graph& graph, std::span<const graph::Value> fetches,
                                       const PlanOptions& options);
  virtual ~Plan() = default;

  // Where a feed's elements are read, or a fetch's are written, from the next run on. `value` is one of the
  // graph that was compiled. The memory is the caller's, of the value's type and 4-byte aligned at least (64
  // is faster); that of a fetch overlaps no other. A feed must be bound before the first run, a fetch that is
  // not bound lives in the plan. A feed that no fetch needs may be bound and is ignored. Rebinding is cheap:
  // a few pointers are set.
  virtual void Bind(graph::Value value, void* data) = 0;
  // The memory of a feed or fetch as bound now. A fetch that is itself a feed is in the feed's memory.
  virtual Tensor At(graph::Value value) const = 0;
  // The placeholders and variables that the fetches need, in the graph's order.
  virtual std::span<const graph::Value> feeds() const = 0;

  // From the next run on calls `f` once in each run, in the thread that called Run, when `value`, a fetch,
  // has been written and nothing of the run touches it any more: where nodes run inline on one device right
  // after the kernel that wrote it, while later ones are still to run; otherwise at the end, in any order.
  // One `f` for a value; an empty one takes it away. What `f` throws comes out of Run. Throws
  // std::invalid_argument on a value that is no fetch, or a feed as well.
  virtual void OnFetch(graph::Value value, std::function<void()> f) = 0;

  // Throws what a kernel throws, or RunFailed; the next run begins afresh.
  virtual void Run() = 0;
  // The time of each step, in the order of ToString: the shortest of `runs` runs, one step after the other.
  virtual std::vector<StepTime> Profile(int runs) = 0;

  // Memory for everything but feeds, constants and fetches.
  virtual size_t arena_bytes() const = 0;
  // The most bytes of it that are alive at once when nodes run in order: what no plan can go below.
  virtual size_t largest_live_bytes() const = 0;
  // Kernels that one run calls.
  virtual size_t steps() const = 0;
  // Names of the devices that it runs on.
  virtual std::vector<std::string> devices() const = 0;
  // Threads that a run may keep busy, the caller's among them.
  virtual int threads() const = 0;
  // A line a kernel, in order of running: "dense1/relu = onednn dense activation=relu : f32[128, 64]"; with
  // several devices under a line "on cpu:0" each.
  virtual std::string ToString() const = 0;
};

// The same with costs that were measured: compiles for one thread, runs that a few times on zeros, and
// compiles again with what its steps took.
std::unique_ptr<Plan> CompileMeasured(const graph::Graph& graph, std::span<const graph::Value> fetches,
                                      const PlanOptions& options);

}  // namespace leat::engine
