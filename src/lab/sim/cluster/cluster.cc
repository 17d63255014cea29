#include "lab/sim/cluster/cluster.h"

#include <utility>

#include "base/check.h"
#include "lab/sim/cluster/concerns.h"
#include "protocol/allreduce/reduction.h"

namespace leat::sim {

using namespace protocol;

namespace {

// With this many pending events, their data has long left the cache.
constexpr uint64_t kCrowd = 4096;

}  // namespace

// ---- the world of the concerns

Concern::Concern(ClusterConcerns& all)
    : all_(all),
      world_(all.world),
      options_(all.world.options),
      result_(all.world.result),
      queue_(all.world.queue),
      rng_(all.world.rng),
      processes_(all.processes) {}

World::World(ClusterOptions o, Workload& w, Hooks h)
    : options(std::move(o)), workload(w), hooks(std::move(h)), rng(options.seed) {
  for (const SliceSpec& slice : options.table.slices) {
    slice_ranges.push_back({elements, elements + slice.elements()});
    elements = slice_ranges.back().end;
  }
  modelled = workload.Join() == nullptr;
}

Duration Concern::Latency(Duration least, double share) {
  if (Chance(share * options_.faults.slow)) return Between(1, 3000);
  if (options_.jitter > 0) return least + FromSeconds(Seconds(least) * options_.jitter * rng_.Uniform());
  return least;
}

void Concern::ScheduleIn(const std::shared_ptr<Process>& process, Duration delay,
                         std::function<void()> what) {
  queue_.After(delay, [this, process, what = std::move(what)]() mutable {
    if (!process->alive) return;
    if (now() < process->paused_until)
      return ScheduleIn(process, process->paused_until - now(), std::move(what));
    what();
  });
}

void World::Violate(Invariant invariant, std::string what) {
  done = true;
  if (!result.violation) result.violation = Violation{invariant, std::move(what), now()};
}

void World::TellFault(const std::string& what, const RoleProcess* p) const {
  if (!hooks.on_fault) return;
  if (p == nullptr) return hooks.on_fault(now(), "coordinator: " + what);
  const std::string name = (p->role == Role::kServer ? "server " : "worker ") + std::to_string(p->started);
  hooks.on_fault(now(), name + ": " + what);
}

// ---- the run

// Hands each event to the concern that scheduled it.
class Cluster::Router : public ClusterConcerns {
 public:
  Router(Cluster& cluster, ClusterOptions options, Workload& workload, Hooks hooks)
      : ClusterConcerns(std::move(options), workload, std::move(hooks)), self_(cluster) {}

  ClusterResult Run();

 private:
  // The progress of the job.
  struct Reached {
    uint64_t events = 0, step = 0, checkpoint = 0, resumes = 0;
    std::vector<Position> watermark;
    friend bool operator==(const Reached&, const Reached&) = default;
  };

  void Handle(const EventQueue::Event& event);
  void Watch();
  void CheckProgress();
  ClusterResult Result() const;

  Cluster& self_;
  std::optional<Reached> last_reached_;
};

ClusterResult Cluster::Router::Run() {
  const ClusterOptions& options = world.options;
  world.OwnDirectories() ? hosts.StartAll() : coordinators.Start(0, false);
  members.StartAll();
  subscribers.StartAll();
  if (options.faults.fault_interval > Duration(0)) {
    faults.InjectFaults();
    subscribers.InjectFaults();
  }
  if (options.deaths.mean_time_between > Duration(0)) faults.InjectDeaths();
  for (const PlannedFault& planned : options.plan) faults.Plan(planned);
  if (options.alarm_interval > Duration(0)) coordinators.ScheduleAlarm();
  if (world.hooks.watch) world.queue.After(world.hooks.watch_every, [this] { Watch(); });
  if (options.progress_within > Duration(0))
    world.queue.After(options.progress_within, [this] { CheckProgress(); });
  EventQueue::Event event;
  while (!world.done && world.now() < options.time_limit && world.queue.Next(&event)) {
    // With fewer, the data is in the cache anyway.
    if (world.queue.size() >= kCrowd) {
      world.queue.LookAhead([this](const EventQueue::Event& soon, int hop) {
        if (soon.kind == kComputed) return machines.PrefetchEvent(soon.what, hop);
        if (soon.kind == kArrive || soon.kind == kDeliver) pushes.PrefetchEvent(soon, hop);
      });
    }
    Handle(event);
  }
  if (!world.done) world.Violate(Invariant::kJobDeadline, coordinators.DescribeProgress());
  return Result();
}

void Cluster::Router::Handle(const EventQueue::Event& event) {
  switch (event.kind) {
    case kArrive:
      return pushes.OnArrive(event.what);
    case kDeliver:
      return pushes.OnDeliver(event.what);
    case kMoreToSend:
      return pushes.OnMoreToSend(event.what);
    case kComputed:
      return machines.OnComputed(event.what);
    case kPieceArrives:
      return network.OnArrives(event.what);
    case kPieceDelivered:
      return network.OnDelivered(event.what);
    case kPieceSent:
      return network.OnPieceSent(event.what);
    case kCrosses:
      return pushes.OnCrosses(event.what);
    case kPieceCrosses:
      return network.OnCrosses(event.what);
    case kCores:
      return machines.OnCores(event.what);
    case kChunkArrives:
      return machines.OnChunkArrives(event.what);
    case kChunkDelivered:
      return machines.OnChunkDelivered(event.what);
    case kWake:
      return members.OnTimer(event.what, event.at);
    default:
      return;
  }
}

void Cluster::Router::Watch() {
  if (!world.hooks.watch(self_)) {
    world.done = true;
    return;
  }
  world.queue.After(world.hooks.watch_every, [this] { Watch(); });
}

void Cluster::Router::CheckProgress() {
  const CoordinatorStatus status = coordinators.status();
  Reached reached{status.events, status.step, status.checkpoint.value_or(0), world.result.resumes,
                  status.watermark};
  const Duration within = world.options.progress_within;
  if (last_reached_ && *last_reached_ == reached) {
    return world.Violate(Invariant::kJobProgress, "nothing has moved in " + std::to_string(Seconds(within)) +
                                                      " s: " + coordinators.DescribeProgress());
  }
  last_reached_ = std::move(reached);
  world.queue.After(within, [this] { CheckProgress(); });
}

ClusterResult Cluster::Router::Result() const {
  ClusterResult result = world.result;
  result.damaged = disk.found_damaged();
  result.rounds_remade = disk.rounds_remade();
  if (result.violation) result.error = result.violation->ToString();
  result.ended = !result.violation;
  result.took = world.now();
  return result;
}

// ---- public interface

Cluster::Cluster(ClusterOptions options, Workload& workload, Hooks hooks)
    : router_(std::make_unique<Router>(*this, std::move(options), workload, std::move(hooks))) {}

Cluster::~Cluster() = default;

ClusterResult Cluster::Run() {
  return router_->Run();
}

Time Cluster::now() const {
  return router_->world.now();
}

uint64_t Cluster::messages() const {
  return router_->world.result.messages;
}

CoordinatorStatus Cluster::status() const {
  return router_->coordinators.status();
}

bool Cluster::Values(std::vector<float>* values) const {
  return router_->processes.Values(values);
}

bool Cluster::Saved(std::vector<float>* values) const {
  return router_->checkpoints.Saved(values);
}

const Disk& Cluster::disk() const {
  return router_->disk;
}

std::vector<ServerProgress> Cluster::servers() const {
  std::vector<ServerProgress> all;
  for (const auto& [node, progress] : router_->members.progress()) all.push_back(progress);
  return all;
}

}  // namespace leat::sim
