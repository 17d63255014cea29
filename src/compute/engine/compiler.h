// Compiles a graph for one device into a Program, which plans run. Internal to the engine.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compute/engine/lower.h"
#include "compute/engine/plan.h"
#include "compute/engine/run/executor.h"

namespace leat::engine {

// Send and Receive ops between the parts of a partitioned graph. They come in pairs with the same edge
// number. Their kernels belong to the engine.

// Sends its input tensor. Without an input, it signals that its control dependencies have run.
class Send final : public graph::Op {
 public:
  Send(uint32_t e, std::string t) : edge(e), to(std::move(t)) {}
  std::string_view kind() const override { return "send"; }
  std::vector<TensorType> Infer(std::span<const TensorType>) const override { return {}; }
  std::string attributes() const override { return "edge=" + std::to_string(edge) + " to=" + to; }

  const uint32_t edge;
  const std::string to;  // device
};

// Outputs the tensor that was sent. Without a tensor, it has no output and only orders nodes.
class Receive final : public graph::Op {
 public:
  Receive(uint32_t e, std::string f, std::optional<TensorType> t)
      : edge(e), from(std::move(f)), type(std::move(t)) {}
  std::string_view kind() const override { return "recv"; }
  std::vector<TensorType> Infer(std::span<const TensorType>) const override {
    return type ? std::vector{*type} : std::vector<TensorType>{};
  }
  std::string attributes() const override { return "edge=" + std::to_string(edge) + " from=" + from; }

  const uint32_t edge;
  const std::string from;  // device
  const std::optional<TensorType> type;
};

// A graph whose nodes all run on one device.
struct Unit {
  Lowered lowered;
  std::vector<ChosenKernel> kernels;  // by node
  std::vector<double> costs_us;       // by node; empty if not needed
  // By node: scheduling priority across all units. If empty, computed from this unit alone.
  std::vector<double> priority;
  // Maximal number of threads for its steps; kOneByOne runs them in graph order.
  int threads = kOneByOne;

  static constexpr int kOneByOne = 0;
};

// A piece of memory for one or more values, as views or one after the other.
struct Storage {
  enum class Kind { kFeed, kConstant, kFetch, kReceived, kArena };
  Kind kind = Kind::kArena;
  std::string name;  // node of its first value
  size_t bytes = 0;
  std::byte* data = nullptr;
  bool bound = false;                  // a feed with memory from the caller
  Tensor own;                          // owns the memory of a constant, an unbound fetch or a received tensor
  std::vector<uint32_t> input_slots;   // in Program::inputs
  std::vector<uint32_t> output_slots;  // in Program::outputs
};

// The state of a feed or fetch of the user's graph.
struct Binding {
  TensorType type;
  std::optional<uint32_t> storage;  // empty: a feed that no fetch needs
  void* unused = nullptr;           // memory that such a feed was bound to
};

// A step that runs when a tensor from another device has arrived.
struct ReceiveStep {
  uint32_t edge = 0;
  StepIndex step = 0;
  std::span<std::byte> into;  // empty for a control dependency, which transfers no tensor
};

struct Program {
  std::vector<std::shared_ptr<const graph::Op>> ops;  // kept alive for the kernels
  std::vector<std::unique_ptr<graph::Kernel>> kernels;
  std::vector<Storage> storages;
  std::vector<const std::byte*> inputs;  // arguments of all steps, concatenated
  std::vector<std::byte*> outputs;
  std::vector<Step> steps;  // arguments are spans of `inputs` and `outputs`
  std::vector<std::vector<StepIndex>> dependencies;
  std::vector<double> priority;  // by step; empty if they run one by one
  std::vector<ReceiveStep> receives;
  std::vector<StepTime> infos;               // by step, without times
  std::map<graph::Value, Binding> bindings;  // by value of the user's graph
  std::vector<graph::Value> feeds;
  Buffer arena;
  size_t largest_live_bytes = 0;
  int threads = Unit::kOneByOne;
  std::shared_ptr<Progress> progress;

  bool all_bound = false;  // every feed is bound

  // As in Plan; `binding` is an element of `bindings`.
  void Bind(Binding& binding, std::byte* data);
  Tensor At(const Binding& binding) const;
  // Throws std::invalid_argument with the names of the feeds that are not bound.
  void CheckBound() {
    if (!all_bound) FailUnbound();
  }
  // The last step that accesses the memory of a fetch. Throws std::invalid_argument if it is not a fetch, or
  // also a feed.
  StepIndex LastUse(const Binding& binding) const;
  size_t arena_bytes() const { return arena.size(); }
  size_t live_bytes() const { return largest_live_bytes; }
  size_t step_count() const { return steps.size(); }

 private:
  void FailUnbound();
};

// Throws std::invalid_argument if the value is neither a feed nor a fetch of the plan.
template <class Bindings>
auto& FindBinding(Bindings& bindings, graph::Value value) {
  const auto it = bindings.find(value);
  if (it == bindings.end()) {
    throw std::invalid_argument("output " + std::to_string(value.output) + " of node " +
                                std::to_string(value.node) + " is neither a feed nor a fetch of this plan");
  }
  return it->second;
}

// Runs the step and stores its duration in time->us, if it is the first or the shortest so far.
void RunTimed(const Step& step, bool first, StepTime* time);

// Compiles `unit`, which was made from the user's graph `source`.
Program CompileProgram(const graph::Graph& source, Unit unit, const PlanOptions& options);

// A kernel that copies `bytes` bytes from its input to its output.
std::unique_ptr<graph::Kernel> MakeCopyKernel(size_t bytes);

}  // namespace leat::engine
