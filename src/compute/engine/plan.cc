#include "compute/engine/plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>

#include "compute/engine/compiler.h"
#include "compute/engine/placement/partition.h"
#include "compute/graph/builtin.h"

namespace leat::engine {
namespace {

class CompiledPlan final : public Plan {
 public:
  CompiledPlan(Program program, const Device& device) : p_(std::move(program)), device_(device.name) {
    if (p_.threads != Unit::kOneByOne) {
      device.pool->Grow(p_.threads - 1);
      executor_ = std::make_unique<QueueExecutor>(
          Schedule{p_.steps, p_.dependencies, p_.priority, awaited_, *p_.progress}, p_.threads, device.pool);
    }
  }

  void Bind(graph::Value value, void* data) override {
    p_.Bind(FindBinding(p_.bindings, value), static_cast<std::byte*>(data));
  }
  Tensor At(graph::Value value) const override { return p_.At(FindBinding(p_.bindings, value)); }
  std::span<const graph::Value> feeds() const override { return p_.feeds; }

  void OnFetch(graph::Value value, std::function<void()> f) override {
    const StepIndex last = p_.LastUse(FindBinding(p_.bindings, value));
    std::erase_if(hooks_, [&](const Hook& hook) { return hook.value == value; });
    if (!f) return;
    hooks_.push_back({last, value, std::move(f)});
    std::ranges::stable_sort(hooks_, {}, &Hook::step);
  }

  void Run() override {
    p_.CheckBound();
    if (executor_) {
      executor_->Run();
      for (const Hook& hook : hooks_) hook.f();
    } else if (hooks_.empty()) {
      for (const Step& step : p_.steps) RunStep(step);
    } else {
      RunWithHooks();
    }
  }

  std::vector<StepTime> Profile(int runs) override {
    p_.CheckBound();
    std::vector<StepTime> times = p_.infos;
    for (StepTime& time : times) time.device = device_;
    for (int run = 0; run < runs; ++run) {
      for (size_t i = 0; i < p_.steps.size(); ++i) RunTimed(p_.steps[i], run == 0, &times[i]);
    }
    return times;
  }

  size_t arena_bytes() const override { return p_.arena_bytes(); }
  size_t largest_live_bytes() const override { return p_.live_bytes(); }
  size_t steps() const override { return p_.step_count(); }
  std::vector<std::string> devices() const override { return {device_}; }
  int threads() const override { return std::max(1, p_.threads); }
  std::string ToString() const override {
    std::string text;
    for (const StepTime& info : p_.infos) text += info.text + "\n";
    return text;
  }

 private:
  struct Hook {
    StepIndex step;  // after which it is called
    graph::Value value;
    std::function<void()> f;
  };

  void RunStep(const Step& step) {
    step.kernel->Run(step.args);
    p_.progress->OnKernel();
  }

  void RunWithHooks() {
    auto hook = hooks_.begin();
    for (StepIndex i = 0; i < p_.steps.size(); ++i) {
      RunStep(p_.steps[i]);
      for (; hook != hooks_.end() && hook->step == i; ++hook) hook->f();
    }
  }

  Program p_;
  std::vector<Hook> hooks_;  // ordered by step
  const std::string device_;
  const std::vector<StepIndex> awaited_;     // nothing from elsewhere
  std::unique_ptr<QueueExecutor> executor_;  // null when the plan runs inline
};

// The whole machine as one device, if no devices were given.
std::shared_ptr<const Machine> AnyCore() {
  Machine machine;
  machine.threads = std::numeric_limits<int>::max();
  machine.devices.push_back({.name = "cpu:0", .kind = "cpu"});
  machine.devices[0].threads = machine.threads;
  machine.devices[0].pool = ThreadPool::OfProcess();
  return std::make_shared<const Machine>(std::move(machine));
}

// Upper limit on threads; no machine has more cores.
constexpr int kMaxThreads = 1024;

class PlanMaker {
 public:
  PlanMaker(const graph::Graph& graph, std::span<const graph::Value> fetches, const PlanOptions& options)
      : source_(graph), options_(options), lowered_(Lower(graph, fetches, options)) {
    if (!options_.machine) options_.machine = AnyCore();
  }

  std::unique_ptr<Plan> Make() {
    ChooseKernels();
    EstimateCosts();
    const int threads = std::min(ThreadCount(options_.inter_op_threads), kMaxThreads);
    const Placement placement = Place({lowered_.graph, devices(), costs_, rates_, threads});
    const std::vector<uint32_t> used = UsedDevices(placement);
    std::vector<ChosenKernel> kernels;
    std::vector<double> costs;
    for (size_t n = 0; n < lowered_.graph.nodes().size(); ++n) {
      const uint32_t d = placement.devices[n];
      kernels.push_back(std::move(kernels_.at(devices()[d].kind)[n]));
      costs.push_back(costs_[d][n]);
    }
    if (used.size() > 1) {
      auto crossing = std::make_unique<TransferContext>();
      Partition partition =
          PartitionGraph(lowered_, placement, devices(), std::move(kernels), costs, *crossing);
      for (size_t u = 0; u < partition.units.size(); ++u) {
        partition.units[u].threads =
            Threads(devices()[partition.devices[u]], partition.units[u].kernels.size());
      }
      return MakePartitionedPlan(source_, std::move(partition), std::move(crossing), options_);
    }
    const Device& device = devices()[used[0]];
    Unit unit{.lowered = std::move(lowered_), .kernels = std::move(kernels), .costs_us = std::move(costs)};
    unit.threads = QueueThreads(device, placement, unit);
    return std::make_unique<CompiledPlan>(CompileProgram(source_, std::move(unit), options_), device);
  }

 private:
  const std::vector<Device>& devices() const { return options_.machine->devices; }

  // Chooses kernels for each kind of device. Throws if a node has none on any kind.
  void ChooseKernels() {
    std::string missing;
    for (const Device& device : devices()) kernels_[device.kind];
    for (const graph::Node& node : lowered_.graph.nodes()) {
      bool found = !graph::NeedsKernel(*node.op);
      for (auto& [kind, kernels] : kernels_) {
        kernels.emplace_back();
        if (!graph::NeedsKernel(*node.op)) continue;
        kernels.back() = ChooseKernel(lowered_.graph, node, kind, options_);
        found = found || kernels.back().kernel != nullptr;
      }
      if (found) continue;
      missing += missing.empty() ? "" : "; ";
      missing += "[" + std::string(node.op->kind()) + "] no kernel for " + node.outputs[0].ToString() +
                 ", node \"" + node.name + "\"" + (node.where.empty() ? "" : ", " + node.where);
    }
    if (!missing.empty()) throw std::invalid_argument(missing);
  }

  // A single thread on one device needs no costs, so nothing is measured for it.
  void EstimateCosts() {
    std::vector<double> costs(lowered_.graph.nodes().size());
    if (devices().size() > 1 || ThreadCount(options_.inter_op_threads) > 1) {
      rates_ = options_.rates ? *options_.rates : MeasuredRates();
      costs = NodeCosts(lowered_.graph, rates_, options_.costs.get());
    }
    for (const Device& device : devices()) {
      costs_.push_back(costs);
      for (const graph::Node& node : lowered_.graph.nodes()) {
        if (graph::NeedsKernel(*node.op) && !kernels_.at(device.kind)[node.index].kernel) {
          costs_.back()[node.index] = std::numeric_limits<double>::infinity();
        }
      }
    }
  }

  // In ascending order; at least one.
  std::vector<uint32_t> UsedDevices(const Placement& placement) const {
    std::set<uint32_t> used;
    for (const graph::Node& node : lowered_.graph.nodes()) {
      if (graph::NeedsKernel(*node.op) || graph::IsFeed(*node.op)) used.insert(placement.devices[node.index]);
    }
    for (const auto& [old, now] : lowered_.fetches) used.insert(placement.devices[now.node]);
    if (used.empty()) used.insert(0);
    return {used.begin(), used.end()};
  }

  int Threads(const Device& device, size_t steps) const {
    const int wanted = std::min(ThreadCount(options_.inter_op_threads), device.threads);
    return std::min(wanted, static_cast<int>(std::clamp<size_t>(steps, 1, kMaxThreads)));
  }

  // Threads pay off only if the work is long enough and not purely sequential.
  int QueueThreads(const Device& device, const Placement& placement, const Unit& unit) const {
    double total = 0, longest = 0;
    for (double cost : unit.costs_us) total += cost;
    for (double way : placement.priority) longest = std::max(longest, way);
    if (total < options_.inline_below_us || total <= 1.05 * longest) return Unit::kOneByOne;
    const int threads = Threads(device, unit.kernels.size());
    return threads > 1 ? threads : Unit::kOneByOne;
  }

  const graph::Graph& source_;
  PlanOptions options_;
  Lowered lowered_;
  std::map<std::string, std::vector<ChosenKernel>> kernels_;  // by kind of device, by node
  std::vector<std::vector<double>> costs_;                    // by device, by node
  Rates rates_;
};

}  // namespace

std::unique_ptr<Plan> Plan::Compile(const graph::Graph& graph, std::span<const graph::Value> fetches,
                                    const PlanOptions& options) {
  return PlanMaker(graph, fetches, options).Make();
}

std::unique_ptr<Plan> CompileMeasured(const graph::Graph& graph, std::span<const graph::Value> fetches,
                                      const PlanOptions& options) {
  const bool single = !options.machine || options.machine->devices.size() == 1;
  if (single && options.inter_op_threads == 1)
    return Plan::Compile(graph, fetches, options);  // costs would decide nothing
  PlanOptions alone = options;
  alone.inter_op_threads = 1;
  alone.machine = nullptr;
  // The measured graph has no device constraints, since one device runs it all. The second compilation checks
  // them.
  graph::Graph anywhere;
  for (const graph::Node& node : graph.nodes())
    anywhere.AddExact(node.op, node.inputs, node.control, node.name, node.where);
  const auto trial = Plan::Compile(anywhere, fetches, alone);
  std::vector<Tensor> zeros;
  for (graph::Value feed : trial->feeds()) {
    zeros.emplace_back(graph.type(feed));
    trial->Bind(feed, zeros.back().raw());
  }
  auto costs = std::make_shared<MeasuredCosts>();
  for (const StepTime& time : trial->Profile(5)) (*costs)[time.name] = time.us;
  PlanOptions measured = options;
  measured.costs = std::move(costs);
  return Plan::Compile(graph, fetches, measured);
}

}  // namespace leat::engine
