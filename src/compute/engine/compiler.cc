#include "compute/engine/compiler.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <stdexcept>

#include "compute/graph/builtin.h"

namespace leat::engine {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeIndex;
using graph::Value;

// Copies a fetch whose elements are in the memory of a feed, a constant or another fetch.
class CopyKernel final : public graph::Kernel {
 public:
  explicit CopyKernel(size_t bytes) : bytes_(bytes) {}
  void Run(const graph::KernelArgs& args) override {
    if (bytes_ > 0) std::memcpy(args.outputs[0], args.inputs[0], bytes_);
  }

 private:
  size_t bytes_;
};

class Compiler {
 public:
  Compiler(const Graph& source, Unit unit, const PlanOptions& options)
      : options_(options),
        source_(source),
        unit_(std::move(unit)),
        lowered_(unit_.lowered),
        graph_(lowered_.graph) {}

  Program Compile() {
    ResolveViews();
    MakeLeafStorages();
    MakeSteps();
    MakeCopies();
    SetOrder();
    AssignStorages();
    PlaceInArena();
    WireSteps();
    BindValues();
    return std::move(program_);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Use and memory of a value that is not a view.
  struct ValueInfo {
    uint32_t storage = kNone;
    std::vector<StepIndex> readers;
    StepIndex writer = kNone;
    std::optional<Value> fetch;  // fetch of the user's graph whose memory it is computed in
  };
  // A kernel with its inputs and outputs, before memory is assigned.
  struct StepInfo {
    std::string name;
    std::unique_ptr<graph::Kernel> kernel;
    NodeIndex node = UINT32_MAX;
    std::vector<Value> inputs;  // views resolved
    std::vector<Value> outputs;
    uint32_t copy_to = kNone;  // a copy's storage instead of outputs
    uint32_t scratch = kNone;  // block
  };

  Value Root(Value v) const {
    const Node& node = graph_.node(v);
    return node.op->is_view() && v.output == 0 ? roots_[v.node] : v;
  }
  ValueInfo& Info(Value root) { return values_[root.node][root.output]; }

  void ResolveViews() {
    for (const Node& node : graph_.nodes()) {
      roots_.push_back(node.op->is_view() ? Root(node.inputs[0]) : Value{node.index, 0});
      values_.emplace_back(node.outputs.size());
      program_.ops.push_back(node.op);
    }
  }

  uint32_t AddStorage(Storage::Kind kind, std::string name, size_t bytes) {
    Storage storage;
    storage.kind = kind;
    storage.name = std::move(name);
    storage.bytes = bytes;
    program_.storages.push_back(std::move(storage));
    return static_cast<uint32_t>(program_.storages.size() - 1);
  }

  uint32_t AddFetchStorage(Value fetch) {
    const TensorType& type = source_.type(fetch);
    const uint32_t index = AddStorage(Storage::Kind::kFetch, source_.node(fetch).name, type.bytes());
    Storage& storage = program_.storages[index];
    storage.own = Tensor(type);
    storage.data = storage.own.raw();
    fetch_storage_[fetch] = index;
    return index;
  }

  void MakeLeafStorages() {
    for (const Node& node : graph_.nodes()) {
      const auto* receive = dynamic_cast<const Receive*>(node.op.get());
      const Tensor* constant = graph::ConstantValue(*node.op);
      if (constant == nullptr && (receive == nullptr || !receive->type)) continue;
      const Tensor own = constant != nullptr ? *constant : Tensor(*receive->type);
      const auto kind = constant != nullptr ? Storage::Kind::kConstant : Storage::Kind::kReceived;
      const uint32_t index = AddStorage(kind, node.name, own.bytes());
      program_.storages[index].own = own;
      program_.storages[index].data = own.raw();
      Info({node.index, 0}).storage = index;
    }
    for (const auto& [old, now] : lowered_.feeds) {
      if (!now) continue;
      Info(*now).storage =
          AddStorage(Storage::Kind::kFeed, graph_.node(*now).name, graph_.type(*now).bytes());
      program_.feeds.push_back(old);
    }
  }

  // A node waits for the steps of its inputs and control dependencies. A node without a step (a view or a
  // leaf) passes on its own dependencies.
  void MakeSteps() {
    std::vector<std::set<StepIndex>> node_waits(graph_.nodes().size());
    for (const Node& node : graph_.nodes()) {
      std::set<StepIndex>& waits = node_waits[node.index];
      for (Value v : node.inputs) waits.insert(node_waits[v.node].begin(), node_waits[v.node].end());
      for (NodeIndex c : node.control) waits.insert(node_waits[c].begin(), node_waits[c].end());
      ChosenKernel& chosen = unit_.kernels[node.index];
      if (!chosen.kernel) continue;
      StepInfo step;
      step.name = node.name;
      step.kernel = std::move(chosen.kernel);
      step.node = node.index;
      for (Value v : node.inputs) step.inputs.push_back(Root(v));
      for (uint32_t i = 0; i < node.outputs.size(); ++i) step.outputs.push_back({node.index, i});
      if (const auto* receive = dynamic_cast<const Receive*>(node.op.get())) {
        std::span<std::byte> into;
        if (receive->type)
          into = {program_.storages[Info(step.outputs[0]).storage].data, receive->type->bytes()};
        program_.receives.push_back({receive->edge, static_cast<StepIndex>(steps_.size()), into});
        step.outputs.clear();  // the sender writes the output
      }
      std::vector<TensorType> types;
      for (Value v : node.inputs) types.push_back(graph_.type(v));
      StepTime info{.name = node.name, .kind = std::string(node.op->kind()), .backend = chosen.backend};
      info.flops = node.op->flops(types, node.outputs);
      for (const TensorType& type : types) info.bytes += static_cast<double>(type.bytes());
      for (const TensorType& type : node.outputs) info.bytes += static_cast<double>(type.bytes());
      info.text = node.name + " = " + chosen.backend + " " + std::string(node.op->kind());
      if (std::string attributes = node.op->attributes(); !attributes.empty()) info.text += " " + attributes;
      for (size_t i = 0; i < node.outputs.size(); ++i)
        info.text += (i ? ", " : " : ") + node.outputs[i].ToString();
      waits = {AddStep(std::move(step), {waits.begin(), waits.end()}, std::move(info))};
    }
  }

  StepIndex AddStep(StepInfo step, std::vector<StepIndex> waits, StepTime info) {
    const auto index = static_cast<StepIndex>(steps_.size());
    for (Value v : step.inputs) {
      std::vector<StepIndex>& readers = Info(v).readers;
      if (readers.empty() || readers.back() != index) readers.push_back(index);
    }
    for (Value v : step.outputs) Info(v).writer = index;
    steps_.push_back(std::move(step));
    program_.dependencies.push_back(std::move(waits));
    program_.infos.push_back(std::move(info));
    return index;
  }

  // Decides which fetches are computed in place, and adds a step for each that cannot be.
  void MakeCopies() {
    for (const auto& [old, now] : lowered_.fetches) {
      const Value root = Root(now);
      if (Info(root).writer != kNone && !Info(root).fetch) {
        Info(root).fetch = old;
        continue;
      }
      StepInfo step;
      step.name = source_.node(old).name;
      step.kernel = MakeCopyKernel(source_.type(old).bytes());
      step.inputs = {root};
      step.copy_to = AddFetchStorage(old);
      std::vector<StepIndex> waits;
      if (Info(root).writer != kNone) waits.push_back(Info(root).writer);
      StepTime info{.name = step.name, .kind = "copy", .backend = "engine"};
      info.bytes = 2 * static_cast<double>(source_.type(old).bytes());
      info.text = step.name + " = engine copy : " + source_.type(old).ToString();
      AddStep(std::move(step), std::move(waits), std::move(info));
    }
  }

  void SetOrder() {
    program_.threads = unit_.threads;
    if (unit_.threads == Unit::kOneByOne) return;
    order_ = StepOrder::ByDependencies(program_.dependencies);
    std::vector<double> costs, priority;
    for (const StepInfo& step : steps_) {
      const bool copy = step.node == UINT32_MAX;
      costs.push_back(copy || unit_.costs_us.empty() ? 0 : unit_.costs_us[step.node]);
      priority.push_back(copy || unit_.priority.empty() ? 0 : unit_.priority[step.node]);
    }
    program_.priority = unit_.priority.empty() ? CriticalPaths(costs, program_.dependencies) : priority;
  }

  // Whether no other step needs the value once `step` begins.
  bool DiesAt(const ValueInfo& value, StepIndex step) const {
    return std::ranges::all_of(value.readers,
                               [&](StepIndex r) { return r == step || order_.Before(r, step); });
  }

  // The storage of an input that this output may overwrite, kNone if there is none.
  uint32_t InPlaceStorage(const StepInfo& step, StepIndex index, size_t output) {
    if (!options_.share_memory) return kNone;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.kernel->OutputInPlaceOf(static_cast<int>(i)) != static_cast<int>(output)) continue;
      const ValueInfo& input = Info(step.inputs[i]);
      const Storage& storage = program_.storages[input.storage];
      const auto same = [&](Value v) { return Info(v).storage == input.storage; };
      if (storage.kind == Storage::Kind::kArena && DiesAt(input, index) &&
          storage.bytes == graph_.type(step.outputs[output]).bytes() &&
          std::ranges::count_if(step.inputs, same) == 1 && std::ranges::none_of(step.outputs, same)) {
        return input.storage;
      }
    }
    return kNone;
  }

  void AssignStorages() {
    for (StepIndex i = 0; i < steps_.size(); ++i) {
      const StepInfo& step = steps_[i];
      for (size_t o = 0; o < step.outputs.size(); ++o) {
        ValueInfo& value = Info(step.outputs[o]);
        value.storage = InPlaceStorage(step, i, o);
        if (value.fetch) {
          const uint32_t fetch = AddFetchStorage(*value.fetch);
          // The input that it overwrites moves into the fetch's memory too.
          if (value.storage != kNone) MoveStorage(value.storage, fetch);
          value.storage = fetch;
        } else if (value.storage == kNone) {
          value.storage = AddStorage(Storage::Kind::kArena, step.name, graph_.type(step.outputs[o]).bytes());
        }
      }
    }
  }

  void MoveStorage(uint32_t from, uint32_t to) {
    for (auto& node : values_) {
      for (ValueInfo& value : node) {
        if (value.storage == from) value.storage = to;
      }
    }
  }

  // Blocks of the arena: storages that are neither bound nor constant, and the scratch memory of steps.
  void PlaceInArena() {
    std::vector<Block> blocks;
    std::vector<uint32_t> block_storage;
    std::vector<uint32_t> storage_block(program_.storages.size(), kNone);
    const auto touch = [&](uint32_t storage, StepIndex step) {
      if (program_.storages[storage].kind != Storage::Kind::kArena) return;
      uint32_t& block = storage_block[storage];
      if (block == kNone) {
        block = static_cast<uint32_t>(blocks.size());
        blocks.push_back({program_.storages[storage].bytes, step, {}});
        block_storage.push_back(storage);
      }
      std::vector<StepIndex>& users = blocks[block].steps;
      if (users.empty() || users.back() != step) users.push_back(step);
    };
    for (StepIndex i = 0; i < steps_.size(); ++i) {
      for (Value v : steps_[i].outputs) touch(Info(v).storage, i);
      for (Value v : steps_[i].inputs) touch(Info(v).storage, i);
      if (const size_t scratch = steps_[i].kernel->scratch_bytes(); scratch > 0) {
        steps_[i].scratch = static_cast<uint32_t>(blocks.size());
        blocks.push_back({scratch, i, {i}});
        block_storage.push_back(kNone);
      }
    }
    const MemoryPlan plan = options_.share_memory ? PlanMemory(blocks, order_) : PlanWithoutSharing(blocks);
    program_.arena = Buffer(plan.bytes);
    program_.largest_live_bytes = LargestLiveBytes(blocks);
    for (size_t b = 0; b < blocks.size(); ++b) {
      if (block_storage[b] != kNone) {
        program_.storages[block_storage[b]].data = program_.arena.data() + plan.offsets[b];
      }
    }
    for (const StepInfo& step : steps_) {
      scratch_.push_back(step.scratch == kNone ? nullptr
                                               : program_.arena.data() + plan.offsets[step.scratch]);
    }
  }

  // Fill the vectors before taking spans, which would not survive a reallocation.
  void WireSteps() {
    for (const StepInfo& step : steps_) {
      for (Value v : step.inputs) AddSlot(Info(v).storage, program_.inputs, &Storage::input_slots);
      for (Value v : step.outputs) AddSlot(Info(v).storage, program_.outputs, &Storage::output_slots);
      if (step.copy_to != kNone) AddSlot(step.copy_to, program_.outputs, &Storage::output_slots);
    }
    size_t input = 0, output = 0;
    for (size_t i = 0; i < steps_.size(); ++i) {
      StepInfo& step = steps_[i];
      const size_t outputs = step.copy_to == kNone ? step.outputs.size() : 1;
      Step wired;
      wired.kernel = step.kernel.get();
      wired.args = {std::span(program_.inputs).subspan(input, step.inputs.size()),
                    std::span(program_.outputs).subspan(output, outputs), scratch_[i]};
      input += step.inputs.size();
      output += outputs;
      program_.steps.push_back(wired);
      program_.kernels.push_back(std::move(step.kernel));
    }
  }

  template <class Pointer>
  void AddSlot(uint32_t storage, std::vector<Pointer>& pointers, std::vector<uint32_t> Storage::*slots) {
    (program_.storages[storage].*slots).push_back(static_cast<uint32_t>(pointers.size()));
    pointers.push_back(program_.storages[storage].data);
  }

  void BindValues() {
    for (const auto& [old, now] : lowered_.feeds) {
      Binding& binding = program_.bindings[old];
      binding.type = source_.type(old);
      if (now) binding.storage = Info(*now).storage;
    }
    for (const auto& [old, storage] : fetch_storage_)
      program_.bindings[old] = {source_.type(old), storage, nullptr};
  }

  const PlanOptions& options_;
  const Graph& source_;
  Unit unit_;
  const Lowered& lowered_;
  const Graph& graph_;
  Program program_;

  std::vector<Value> roots_;                    // by node: the value it is a view of, or its own output 0
  std::vector<std::vector<ValueInfo>> values_;  // by node, output
  std::vector<StepInfo> steps_;
  std::map<Value, uint32_t> fetch_storage_;  // by value of the user's graph
  StepOrder order_ = StepOrder::Serial();
  std::vector<std::byte*> scratch_;  // by step
};

}  // namespace

Program CompileProgram(const graph::Graph& source, Unit unit, const PlanOptions& options) {
  Program program = Compiler(source, std::move(unit), options).Compile();
  program.progress = options.progress ? options.progress : std::make_shared<Progress>();
  return program;
}

std::unique_ptr<graph::Kernel> MakeCopyKernel(size_t bytes) {
  return std::make_unique<CopyKernel>(bytes);
}

void Program::Bind(Binding& binding, std::byte* data) {
  if (!binding.storage) {
    binding.unused = data;
    return;
  }
  Storage& storage = storages[*binding.storage];
  storage.bound = true;
  storage.data = data;
  for (uint32_t slot : storage.input_slots) inputs[slot] = data;
  for (uint32_t slot : storage.output_slots) outputs[slot] = data;
}

Tensor Program::At(const Binding& binding) const {
  return Tensor(binding.type, binding.storage ? storages[*binding.storage].data : binding.unused);
}

StepIndex Program::LastUse(const Binding& binding) const {
  if (!binding.storage || storages[*binding.storage].kind != Storage::Kind::kFetch)
    throw std::invalid_argument("OnFetch needs a fetch that is not also a feed");
  const Storage& storage = storages[*binding.storage];
  // Slots are in the order of steps.
  uint32_t input = 0, output = 0;  // ends: the last slot + 1
  for (uint32_t slot : storage.input_slots) input = std::max(input, slot + 1);
  for (uint32_t slot : storage.output_slots) output = std::max(output, slot + 1);
  StepIndex last = 0;
  size_t inputs_before = 0, outputs_before = 0;
  for (StepIndex i = 0; i < steps.size(); ++i) {
    if (inputs_before < input || outputs_before < output) last = i;
    inputs_before += steps[i].args.inputs.size();
    outputs_before += steps[i].args.outputs.size();
  }
  return last;
}

void Program::FailUnbound() {
  std::string names;
  for (const Storage& storage : storages) {
    if (storage.kind != Storage::Kind::kFeed || storage.bound) continue;
    names += (names.empty() ? "\"" : ", \"") + storage.name + "\"";
  }
  if (!names.empty()) throw std::invalid_argument("feeds are not bound: " + names);
  all_bound = true;
}

void RunTimed(const Step& step, bool first, StepTime* time) {
  const auto begin = std::chrono::steady_clock::now();
  step.kernel->Run(step.args);
  const double us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  time->us = first ? us : std::min(time->us, us);
}

}  // namespace leat::engine
