// From a graph for one device to a Program: what plans run. Internal to the engine.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/lower.h"
#include "engine/plan.h"
#include "engine/run/executor.h"

namespace leat::engine {

// A graph whose nodes all run on one device.
struct Unit {
  Lowered lowered;
  std::vector<ChosenKernel> kernels;  // by node
  std::vector<double> costs_us;       // by node; empty when nobody asks
  // By node, how much hangs on it, in other units too; empty: what does in this one.
  std::vector<double> priority;
  // How many threads may run its steps; kOneByOne: they run in the graph's order.
  int threads = kOneByOne;

  static constexpr int kOneByOne = 0;
};

// A piece of memory that one or more values live in, one after the other or as views.
struct Storage {
  enum class Kind { kFeed, kConstant, kFetch, kReceived, kArena };
  Kind kind = Kind::kArena;
  std::string name;  // of the node that its first value belongs to
  size_t bytes = 0;
  std::byte* data = nullptr;
  bool bound = false;                  // a feed that has its memory
  Tensor own;                          // keeps the memory of a constant, an unbound fetch, what is received
  std::vector<uint32_t> input_slots;   // in Program::inputs
  std::vector<uint32_t> output_slots;  // in Program::outputs
};

// What a value of the user's graph that may be bound stands for.
struct Binding {
  TensorType type;
  std::optional<uint32_t> storage;  // empty: a feed that no fetch needs
  void* unused = nullptr;           // what such a feed was bound to
};

// A step that runs when a tensor from another device has come.
struct ReceiveStep {
  uint32_t edge = 0;
  StepIndex step = 0;
  std::span<std::byte> into;  // empty when no tensor comes, only the word that its sender has run
};

struct Program {
  std::vector<std::shared_ptr<const graph::Op>> ops;  // kernels may look at them
  std::vector<std::unique_ptr<graph::Kernel>> kernels;
  std::vector<Storage> storages;
  std::vector<const std::byte*> inputs;  // of all steps, one behind the other
  std::vector<std::byte*> outputs;
  std::vector<Step> steps;  // their arguments lie in `inputs` and `outputs`
  std::vector<std::vector<StepIndex>> dependencies;
  std::vector<double> priority;  // by step; empty when they run one by one
  std::vector<ReceiveStep> receives;
  std::vector<StepTime> infos;               // by step, without their times
  std::map<graph::Value, Binding> bindings;  // by value of the user's graph
  std::vector<graph::Value> feeds;
  Buffer arena;
  size_t largest_live_bytes = 0;
  int threads = Unit::kOneByOne;

  bool all_bound = false;  // every feed has its memory

  // As Plan's; `binding` is one of `bindings`.
  void Bind(Binding& binding, std::byte* data);
  Tensor At(const Binding& binding) const;
  // Throws std::invalid_argument, naming feeds that have no memory yet.
  void CheckBound() {
    if (!all_bound) FailUnbound();
  }
  // The last step that writes or reads the memory of a fetch. Throws std::invalid_argument when it is none,
  // or a feed's.
  StepIndex LastUse(const Binding& binding) const;
  size_t arena_bytes() const { return arena.size(); }
  size_t live_bytes() const { return largest_live_bytes; }
  size_t step_count() const { return steps.size(); }

 private:
  void FailUnbound();
};

// Throws std::invalid_argument when the value is none of the plan's.
template <class Bindings>
auto& FindBinding(Bindings& bindings, graph::Value value) {
  const auto it = bindings.find(value);
  if (it == bindings.end()) {
    throw std::invalid_argument("output " + std::to_string(value.output) + " of node " +
                                std::to_string(value.node) + " is neither a feed nor a fetch of this plan");
  }
  return it->second;
}

// Runs the step; time->us becomes what it took, when that is less than before or it is the first time.
void RunTimed(const Step& step, bool first, StepTime* time);

// `source`: the user's graph.
Program CompileProgram(const graph::Graph& source, Unit unit, const PlanOptions& options);

// Copies that many bytes from its input to its output.
std::unique_ptr<graph::Kernel> MakeCopyKernel(size_t bytes);

}  // namespace leat::engine
