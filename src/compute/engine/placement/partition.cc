#include "compute/engine/placement/partition.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <numeric>

#include "compute/engine/compiler.h"
#include "compute/graph/builtin.h"

namespace leat::engine {

namespace {

using graph::Graph;
using graph::Node;
using graph::NodeIndex;
using graph::Value;

class SendKernel final : public graph::Kernel {
 public:
  SendKernel(const TransferContext& crossing, uint32_t edge, size_t bytes)
      : crossing_(crossing), edge_(edge), bytes_(bytes) {}
  void Run(const graph::KernelArgs& args) override {
    const std::byte* elements = args.inputs.empty() ? nullptr : args.inputs[0];
    Status status = crossing_.rendezvous->Send({crossing_.run, edge_}, {elements, bytes_});
    if (!status.ok()) throw RunFailed(std::move(status));
  }

 private:
  const TransferContext& crossing_;
  const uint32_t edge_;
  const size_t bytes_;
};

// Does nothing: it runs after the sender has written the tensor to its place.
class ReceiveKernel final : public graph::Kernel {
 public:
  void Run(const graph::KernelArgs&) override {}
};

class Cutter {
 public:
  Cutter(const Lowered& lowered, const Placement& placement, const std::vector<Device>& devices,
         std::vector<ChosenKernel> kernels, const std::vector<double>& costs_us,
         const TransferContext& crossing)
      : lowered_(lowered),
        graph_(lowered.graph),
        placement_(placement),
        devices_(devices),
        kernels_(std::move(kernels)),
        costs_us_(costs_us),
        crossing_(crossing),
        units_(devices.size()) {}

  Partition Run() {
    for (const Node& node : graph_.nodes()) {
      const uint32_t d = At(node);
      if (graph::NeedsKernel(*node.op) || graph::IsFeed(*node.op)) Take(node, d);
    }
    for (const auto& [old, now] : lowered_.fetches) {
      const uint32_t d = placement_.devices[now.node];
      units_[d].lowered.fetches[old] = Local(now, d);
    }
    for (const auto& [old, now] : lowered_.feeds) {
      if (now)
        units_[placement_.devices[now->node]].lowered.feeds[old] = Local(*now, placement_.devices[now->node]);
    }
    Partition partition;
    const auto empty = [](const Unit& unit) { return unit.lowered.graph.nodes().empty(); };
    for (uint32_t d = 0; d < units_.size(); ++d) {
      if (!empty(units_[d])) partition.devices.push_back(d);
    }
    std::erase_if(units_, empty);
    partition.units = std::move(units_);
    partition.edges = edges_;
    return partition;
  }

 private:
  uint32_t At(const Node& node) const { return placement_.devices[node.index]; }

  // Adds the node, with its inputs, to the unit of device d.
  NodeIndex Take(const Node& node, uint32_t d) {
    std::vector<Value> inputs;
    for (Value v : node.inputs) inputs.push_back(Local(v, d));
    std::vector<NodeIndex> control;
    for (NodeIndex c : node.control) AddControl(c, d, &control);
    std::ranges::sort(control);
    control.erase(std::unique(control.begin(), control.end()), control.end());
    const bool mine = d == At(node);
    return Add(d, node.op, std::move(inputs), std::move(control), node.name, node.where,
               mine ? std::move(kernels_[node.index]) : ChosenKernel(), costs_us_[node.index],
               placement_.priority[node.index], node.index);
  }

  NodeIndex Add(uint32_t d, std::shared_ptr<const graph::Op> op, std::vector<Value> inputs,
                std::vector<NodeIndex> control, const std::string& name, const std::string& where,
                ChosenKernel kernel, double cost_us, double priority, NodeIndex from = UINT32_MAX) {
    Unit& unit = units_[d];
    Graph& graph = unit.lowered.graph;
    std::string unique = name;
    for (int i = 1; graph.Find(unique); ++i) unique = name + "_" + std::to_string(i);
    const NodeIndex index = graph.AddExact(std::move(op), std::move(inputs), std::move(control),
                                           std::move(unique), where, devices_[d].name);
    unit.kernels.push_back(std::move(kernel));
    unit.costs_us.push_back(cost_us);
    unit.priority.push_back(priority);
    if (from != UINT32_MAX) nodes_[{from, d}] = index;
    return index;
  }

  // The value in the unit of device d, received if it comes from another device.
  Value Local(Value v, uint32_t d) {
    const Node& node = graph_.node(v);
    if (const auto it = nodes_.find({v.node, d}); it != nodes_.end()) return {it->second, v.output};
    if (graph::ConstantValue(*node.op) != nullptr || node.op->is_view()) return {Take(node, d), v.output};
    if (const auto it = received_.find({v, d}); it != received_.end()) return {it->second, 0};
    const uint32_t from = At(node);
    const Value there{nodes_.at({v.node, from}), v.output};
    const TensorType& type = graph_.type(v);
    const NodeIndex receive = Transfer(node, from, d, {there}, {}, type);
    received_[{v, d}] = receive;
    return {receive, 0};
  }

  // Adds the nodes on device d that a node there must wait for in order to run after `n`.
  void AddControl(NodeIndex n, uint32_t d, std::vector<NodeIndex>* control) {
    const Node& node = graph_.node(Value{n, 0});
    if (node.op->is_view()) {
      for (Value v : node.inputs) AddControl(v.node, d, control);
      for (NodeIndex c : node.control) AddControl(c, d, control);
      return;
    }
    if (!graph::NeedsKernel(*node.op)) return;
    if (At(node) == d) {
      control->push_back(nodes_.at({n, d}));
      return;
    }
    for (uint32_t i = 0; i < node.outputs.size(); ++i) {
      const auto it = received_.find({Value{n, i}, d});
      if (it == received_.end()) continue;
      control->push_back(it->second);
      return;
    }
    auto [it, fresh] = told_.try_emplace({n, d}, 0);
    if (fresh) it->second = Transfer(node, At(node), d, {}, {nodes_.at({n, At(node)})}, std::nullopt);
    control->push_back(it->second);
  }

  // Adds a pair of send and receive; returns the receive.
  NodeIndex Transfer(const Node& node, uint32_t from, uint32_t to, std::vector<Value> inputs,
                     std::vector<NodeIndex> control, const std::optional<TensorType>& type) {
    const uint32_t edge = edges_++;
    // A send is short and another device waits for it, so it goes first.
    constexpr double priority = std::numeric_limits<double>::infinity();
    const size_t bytes = type ? type->bytes() : 0;
    Add(from, std::make_shared<Send>(edge, devices_[to].name), std::move(inputs), std::move(control),
        node.name + "/send", node.where, {std::make_unique<SendKernel>(crossing_, edge, bytes), "engine"}, 0,
        priority);
    return Add(to, std::make_shared<Receive>(edge, devices_[from].name, type), {}, {}, node.name + "/recv",
               node.where, {std::make_unique<ReceiveKernel>(), "engine"}, 0, priority);
  }

  const Lowered& lowered_;
  const Graph& graph_;
  const Placement& placement_;
  const std::vector<Device>& devices_;
  std::vector<ChosenKernel> kernels_;
  const std::vector<double>& costs_us_;
  const TransferContext& crossing_;
  std::vector<Unit> units_;                                    // by device
  std::map<std::pair<NodeIndex, uint32_t>, NodeIndex> nodes_;  // (node, device) → node of the unit
  std::map<std::pair<Value, uint32_t>, NodeIndex> received_;   // by value and device
  std::map<std::pair<NodeIndex, uint32_t>, NodeIndex> told_;   // the same without a tensor
  uint32_t edges_ = 0;
};

}  // namespace

Partition PartitionGraph(const Lowered& lowered, const Placement& placement,
                         const std::vector<Device>& devices, std::vector<ChosenKernel> kernels,
                         const std::vector<double>& costs_us, const TransferContext& crossing) {
  return Cutter(lowered, placement, devices, std::move(kernels), costs_us, crossing).Run();
}

namespace {

using SteadyClock = std::chrono::steady_clock;

// The program of one device.
class Part final : public Rendezvous::Receiver {
 public:
  Part(const Device& device, Program program, uint32_t edges)
      : device_(device), program_(std::move(program)), step_of_edge_(edges), arrived_(edges) {
    for (const ReceiveStep& receive : program_.receives) {
      awaited_.push_back(receive.step);
      step_of_edge_[receive.edge] = receive.step;
    }
    device.pool->Grow(program_.threads);
    executor_ = std::make_unique<QueueExecutor>(
        Schedule{program_.steps, program_.dependencies, program_.priority, awaited_, *program_.progress},
        program_.threads, device.pool);
  }

  const Device& device() const { return device_; }
  Program& program() { return program_; }
  const Program& program() const { return program_; }
  QueueExecutor& executor() { return *executor_; }

  // Posts the receives of this run.
  void Expect(const TransferContext& crossing) {
    run_ = crossing.run;
    std::ranges::fill(arrived_, false);
    for (const ReceiveStep& receive : program_.receives) {
      crossing.rendezvous->Receive({crossing.run, receive.edge}, receive.into, *this);
    }
  }

  void Arrived(const TransferKey& key, const Status& status) override {
    if (key.run != run_) return;
    if (!status.ok()) {
      executor_->Stop(std::make_exception_ptr(RunFailed(status)));
      return;
    }
    arrived_[key.edge] = true;
    executor_->Arrived(step_of_edge_[key.edge]);
  }

  // For profiling in one thread: runs steps up to the first that waits for another part, each wrapped in
  // `time`. False if no step could run.
  template <class F>
  bool Advance(StepIndex* next, const F& time) {
    const StepIndex begin = *next;
    for (; *next < program_.steps.size(); ++*next) {
      const auto waits = [&](const ReceiveStep& r) { return r.step == *next && !arrived_[r.edge]; };
      if (std::ranges::any_of(program_.receives, waits)) break;
      time(*next, program_.steps[*next]);
    }
    return *next != begin;
  }

 private:
  const Device device_;
  Program program_;
  std::vector<StepIndex> awaited_;
  std::vector<StepIndex> step_of_edge_;
  std::vector<std::atomic<bool>> arrived_;  // by edge, in this run
  std::atomic<uint64_t> run_{0};
  std::unique_ptr<QueueExecutor> executor_;
};

class PartitionedPlan final : public Plan {
 public:
  PartitionedPlan(const graph::Graph& source, Partition partition, std::unique_ptr<TransferContext> crossing,
                  const PlanOptions& options)
      : machine_(options.machine),
        run_limit_(options.run_limit),
        edges_(partition.edges),
        make_rendezvous_(options.make_rendezvous),
        crossing_(std::move(crossing)) {
    std::vector<double> loads;
    for (size_t u = 0; u < partition.units.size(); ++u) {
      const std::vector<double>& costs = partition.units[u].costs_us;
      loads.push_back(std::accumulate(costs.begin(), costs.end(), 0.0));
      Program program = CompileProgram(source, std::move(partition.units[u]), options);
      parts_.push_back(
          std::make_unique<Part>(machine_->devices[partition.devices[u]], std::move(program), edges_));
    }
    // The part with the most work comes first.
    std::swap(parts_[0], parts_[static_cast<size_t>(std::ranges::max_element(loads) - loads.begin())]);
    for (const auto& part : parts_) {
      part->executor().OnFailure([this](const std::exception_ptr& why) { Fail(why); });
      for (auto& [value, binding] : part->program().bindings)
        bindings_.emplace(value, BoundValue{part.get(), &binding});
      feeds_.insert(feeds_.end(), part->program().feeds.begin(), part->program().feeds.end());
    }
    std::ranges::sort(feeds_);
  }

  // Adds a feed that no fetch needs, so that it can be bound like the others.
  void AddUnused(graph::Value value, const TensorType& type) {
    if (bindings_.contains(value)) return;
    Binding& binding = unused_[value];
    binding.type = type;
    bindings_.emplace(value, BoundValue{parts_[0].get(), &binding});
  }

  void Bind(graph::Value value, void* data) override {
    const BoundValue& place = FindBinding(bindings_, value);
    place.part->program().Bind(*place.binding, static_cast<std::byte*>(data));
  }
  Tensor At(graph::Value value) const override {
    const BoundValue& place = FindBinding(bindings_, value);
    return place.part->program().At(*place.binding);
  }
  std::span<const graph::Value> feeds() const override { return feeds_; }

  void OnFetch(graph::Value value, std::function<void()> f) override {
    const BoundValue& place = FindBinding(bindings_, value);
    place.part->program().LastUse(*place.binding);
    if (f) {
      hooks_[value] = std::move(f);
    } else {
      hooks_.erase(value);
    }
  }

  void Run() override {
    Prepare();
    const auto deadline = SteadyClock::now() + run_limit_;
    // A pool thread that is leaving the last run may take steps of this one as soon as they are released. All
    // receives must be posted by then.
    for (const auto& part : parts_) part->executor().Begin();
    for (const auto& part : parts_) part->Expect(*crossing_);
    for (const auto& part : parts_) part->executor().Release();
    Part* mine = Nearest();
    for (const auto& part : parts_) {
      if (part.get() != mine) part->executor().Start();
    }
    try {
      bool in_time = mine->executor().Work(deadline);
      for (const auto& part : parts_) in_time = in_time && part->executor().Wait(deadline);
      if (!in_time) {
        throw RunFailed({Code::kDeadlineExceeded, "a run on several devices exceeded its time limit of " +
                                                      std::to_string(run_limit_.count()) + " ms"});
      }
    } catch (...) {
      Fail(std::current_exception());
      Settle();
      throw;
    }
    for (const auto& [value, f] : hooks_) f();
  }

  std::vector<StepTime> Profile(int runs) override {
    std::vector<std::vector<StepTime>> times;
    for (const auto& part : parts_) {
      times.push_back(part->program().infos);
      for (StepTime& time : times.back()) time.device = part->device().name;
    }
    for (int run = 0; run < runs; ++run) {
      Prepare();
      for (const auto& part : parts_) part->Expect(*crossing_);
      std::vector<StepIndex> next(parts_.size());
      for (bool moved = true; moved;) {
        moved = false;
        for (size_t p = 0; p < parts_.size(); ++p) {
          moved |= parts_[p]->Advance(
              &next[p], [&](StepIndex i, const Step& step) { RunTimed(step, run == 0, &times[p][i]); });
        }
      }
    }
    std::vector<StepTime> all;
    for (auto& part : times) std::ranges::move(part, std::back_inserter(all));
    return all;
  }

  size_t arena_bytes() const override { return Sum(&Program::arena_bytes); }
  size_t largest_live_bytes() const override { return Sum(&Program::live_bytes); }
  size_t steps() const override { return Sum(&Program::step_count); }
  std::vector<std::string> devices() const override {
    std::vector<std::string> names;
    for (const auto& part : parts_) names.push_back(part->device().name);
    return names;
  }
  int threads() const override {
    int threads = 0;
    for (const auto& part : parts_) threads += part->program().threads;
    return threads;
  }
  std::string ToString() const override {
    std::string text;
    for (const auto& part : parts_) {
      text += "on " + part->device().name + "\n";
      for (const StepTime& info : part->program().infos) text += "  " + info.text + "\n";
    }
    return text;
  }

 private:
  struct BoundValue {
    Part* part;
    Binding* binding;
  };

  size_t Sum(size_t (Program::*of)() const) const {
    size_t sum = 0;
    for (const auto& part : parts_) sum += (part->program().*of)();
    return sum;
  }

  // Starts a new run, with a new rendezvous if the last one was aborted.
  void Prepare() {
    for (const auto& part : parts_) part->program().CheckBound();
    if (!crossing_->rendezvous || failed_) {
      rendezvous_ = make_rendezvous_ ? make_rendezvous_(edges_) : std::make_unique<LocalRendezvous>(edges_);
      crossing_->rendezvous = rendezvous_.get();
      failed_ = false;
    }
    ++crossing_->run;
  }

  // The part for the calling thread: the one whose cores include the current core, so that it does not
  // compete with another part's threads; else the one with the most work.
  Part* Nearest() const {
    const int core = sched_getcpu();
    for (const auto& part : parts_) {
      if (std::ranges::binary_search(part->device().cores, core)) return part.get();
    }
    return parts_[0].get();
  }

  // Ends the run of all parts. Thread-safe.
  void Fail(const std::exception_ptr& why) {
    failed_ = true;
    for (const auto& part : parts_) part->executor().Stop(why);
    crossing_->rendezvous->Abort({Code::kAborted, "another part of the run failed"});
  }

  // After Fail: waits until no thread is in a kernel of this run.
  void Settle() {
    for (const auto& part : parts_) {
      try {
        part->executor().Wait(SteadyClock::time_point::max());
      } catch (...) {  // known already
      }
    }
  }

  const std::shared_ptr<const Machine> machine_;
  const std::chrono::milliseconds run_limit_;
  const uint32_t edges_;
  const std::function<std::unique_ptr<Rendezvous>(size_t)> make_rendezvous_;
  std::unique_ptr<TransferContext> crossing_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::atomic<bool> failed_{false};
  std::vector<std::unique_ptr<Part>> parts_;
  std::map<graph::Value, BoundValue> bindings_;
  std::map<graph::Value, Binding> unused_;
  std::map<graph::Value, std::function<void()>> hooks_;
  std::vector<graph::Value> feeds_;
};

}  // namespace

std::unique_ptr<Plan> MakePartitionedPlan(const graph::Graph& source, Partition partition,
                                          std::unique_ptr<TransferContext> crossing,
                                          const PlanOptions& options) {
  auto plan = std::make_unique<PartitionedPlan>(source, std::move(partition), std::move(crossing), options);
  for (const graph::Node& node : source.nodes()) {
    if (graph::IsFeed(*node.op)) plan->AddUnused({node.index, 0}, node.outputs[0]);
  }
  return plan;
}

}  // namespace leat::engine
