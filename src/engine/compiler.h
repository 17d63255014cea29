// From a graph to a Program: what CompiledPlan runs. Internal to the engine.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/executor.h"
#include "engine/plan.h"

namespace leat::engine {

// A piece of memory that one or more values live in, one after the other or as views.
struct Storage {
  enum class Kind { kFeed, kConstant, kFetch, kArena };
  Kind kind = Kind::kArena;
  std::string name;  // of the node that its first value belongs to
  size_t bytes = 0;
  std::byte* data = nullptr;
  bool bound = false;                  // a feed that has its memory
  Tensor own;                          // keeps a constant's or an unbound fetch's memory
  std::vector<uint32_t> input_slots;   // in Program::inputs
  std::vector<uint32_t> output_slots;  // in Program::outputs
};

// What a value of the user's graph that may be bound stands for.
struct Binding {
  TensorType type;
  std::optional<uint32_t> storage;  // empty: a feed that no fetch needs
  void* unused = nullptr;           // what such a feed was bound to
};

struct Program {
  std::vector<std::shared_ptr<const graph::Op>> ops;  // kernels may look at them
  std::vector<std::unique_ptr<graph::Kernel>> kernels;
  std::vector<Storage> storages;
  std::vector<const std::byte*> inputs;  // of all steps, one behind the other
  std::vector<std::byte*> outputs;
  std::vector<Step> steps;  // their arguments lie in `inputs` and `outputs`
  std::vector<std::vector<StepIndex>> dependencies;
  std::vector<double> costs_us;
  std::vector<std::string> lines;            // by step, for people
  std::map<graph::Value, Binding> bindings;  // by value of the user's graph
  std::vector<graph::Value> feeds;
  Buffer arena;
  size_t largest_live_bytes = 0;
  int threads = 1;  // 1: inline
};

Program CompileProgram(const graph::Graph& graph, std::span<const graph::Value> fetches,
                       const PlanOptions& options);

}  // namespace leat::engine
