#include "compute/engine/placement/partitioned_plan.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>

#include "compute/graph/builtin.h"

namespace leat::engine {
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
