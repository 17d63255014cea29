// A Plan is a compiled graph: pruned, fused, with planned memory and prepared kernels.
//
// Compile once, run many times. Feeds, variables and results can be bound to the caller's memory, so that
// parameters are received from the network directly into the memory that kernels read, and gradients are sent
// from where they were computed. All other values share one arena, planned by lifetime: two values share
// memory only if the order of execution keeps them apart.
//
// On a machine with several devices, nodes are placed by their costs (placement/placement.h), and the graph
// is split where tensors cross devices (placement/partition.h). Results are bitwise equal for any placement.
//
// Not thread-safe; distinct plans are independent. A run allocates no memory.
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
#include "compute/engine/devices/devices.h"
#include "compute/engine/placement/placement.h"
#include "compute/engine/run/progress.h"
#include "compute/engine/run/rendezvous.h"
#include "compute/graph/graph.h"
#include "compute/graph/kernel.h"
#include "compute/graph/pass.h"

namespace leat::engine {

struct PlanOptions {
  // Kernel tables in order of preference: the first with a kernel for a node computes it.
  std::vector<const graph::KernelTable*> tables;
  // Graph passes in order, such as fusions (ops::StandardPasses()).
  std::vector<graph::Pass> passes;
  // Nodes that may run at the same time; 0 means all cores. With 1, and for small or sequential graphs, the
  // plan runs inline in the calling thread.
  int inter_op_threads = 1;
  // Threads that one kernel may use; 0 means all cores.
  int intra_op_threads = 1;
  // Plans with a shorter estimated run stay inline, since waking threads would not pay off. Microseconds.
  double inline_below_us = 50;
  // The devices to use, from Discover(). If null, the whole machine is one device "cpu:0" with unpinned
  // threads.
  std::shared_ptr<const Machine> machine;
  // Node costs: measured by Plan::Profile, or else estimated from `rates`. If `rates` is null,
  // MeasuredRates().
  std::shared_ptr<const MeasuredCosts> costs;
  std::shared_ptr<const Rates> rates;
  // A run on several devices that takes longer fails with RunFailed.
  std::chrono::milliseconds run_limit = std::chrono::minutes(10);
  // Creates the transport between devices, for this number of edges. If empty, LocalRendezvous.
  std::function<std::unique_ptr<Rendezvous>(size_t edges)> make_rendezvous;
  // Counts the kernels that runs of the plan finish; several plans may share it. If null, nobody reads it.
  std::shared_ptr<Progress> progress;
  // Compute nodes that depend only on constants when compiling.
  bool fold_constants = true;
  // Tensors with disjoint lifetimes share memory. Tests turn it off to compare.
  bool share_memory = true;
};

// A kernel of a plan and the duration of a call.
struct StepTime {
  std::string name;  // node name
  std::string kind;  // op kind
  std::string backend;
  std::string device;
  double us = 0;
  double flops = 0;
  double bytes = 0;  // read and written
  std::string text;  // its line in Plan::ToString
};

// A run on several devices failed: a transfer failed, or the time limit passed.
class RunFailed : public std::runtime_error {
 public:
  explicit RunFailed(Status s) : std::runtime_error(s.ToString()), status(std::move(s)) {}
  const Status status;
};

class Plan {
 public:
  // Compiles the part of `graph` that `fetches` depend on. Its placeholders and variables are the plan's
  // feeds. Throws std::invalid_argument if a node requires an unknown device, or no table has a kernel for a
  // node; the message lists all such nodes with op, name and line. Keeps no reference to `graph`.
  static std::unique_ptr<Plan> Compile(const graph::Graph& graph, std::span<const graph::Value> fetches,
                                       const PlanOptions& options);
  virtual ~Plan() = default;

  // Binds memory that later runs read a feed from, or write a fetch to. `value` refers to the graph that was
  // compiled. The caller keeps the memory alive. It has the value's type and at least 4-byte alignment (64 is
  // faster); memory of a fetch must not overlap any other. Every feed must be bound before the first run,
  // except feeds that no fetch needs. An unbound fetch is stored in the plan. Rebinding is cheap. Throws
  // std::invalid_argument if `value` is neither a feed nor a fetch.
  virtual void Bind(graph::Value value, void* data) = 0;
  // The current memory of a feed or fetch. A fetch that is itself a feed uses the feed's memory.
  virtual Tensor At(graph::Value value) const = 0;
  // The placeholders and variables that the fetches need, in the graph's order.
  virtual std::span<const graph::Value> feeds() const = 0;

  // In every later run, calls `f` once in the thread of Run when the fetch `value` is complete and the run no
  // longer uses it. If the plan runs inline on one device, that is right after its last use; otherwise it is
  // at the end of the run, in any order. Each fetch has one `f`; an empty one removes it. Run passes on what
  // `f` throws. Throws std::invalid_argument if `value` is not a fetch, or also a feed.
  virtual void OnFetch(graph::Value value, std::function<void()> f) = 0;

  // Throws RunFailed, std::invalid_argument if a feed is not bound, or a kernel's exception. The plan can be
  // run again.
  virtual void Run() = 0;
  // Runs the plan `runs` times, one step at a time, and returns the shortest time of each step, in the order
  // of ToString.
  virtual std::vector<StepTime> Profile(int runs) = 0;

  // Memory for everything but feeds, constants and fetches.
  virtual size_t arena_bytes() const = 0;
  // The most bytes of it in use at once when nodes run in order: a lower bound for the arena.
  virtual size_t largest_live_bytes() const = 0;
  // Number of kernels that one run calls.
  virtual size_t steps() const = 0;
  // Names of the devices it runs on.
  virtual std::vector<std::string> devices() const = 0;
  // Number of threads that a run may use, including the caller's.
  virtual int threads() const = 0;
  // A line per kernel in order of execution: "dense1/relu = cpu dense activation=relu : f32[128, 64]". With
  // several devices, the lines of each follow a line "on cpu:0".
  virtual std::string ToString() const = 0;
};

// Like Plan::Compile, but with measured costs: compiles for one thread, profiles a few runs on zeros, and
// compiles again with these costs.
std::unique_ptr<Plan> CompileMeasured(const graph::Graph& graph, std::span<const graph::Value> fetches,
                                      const PlanOptions& options);

}  // namespace leat::engine
