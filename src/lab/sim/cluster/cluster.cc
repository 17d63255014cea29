#include "lab/sim/cluster/cluster.h"

#include <algorithm>
#include <optional>
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
  void PrefetchEvent(const EventQueue::Event& event, int hop);
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
      world.queue.LookAhead([this](const EventQueue::Event& soon, int hop) { PrefetchEvent(soon, hop); });
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
      return compute.OnComputed(event.what);
    case kPieceArrives:
      return pieces.OnArrives(event.what);
    case kPieceDelivered:
      return pieces.OnDelivered(event.what);
    case kPieceSent:
      return reductions.OnPieceSent(event.what);
    case kCrosses:
      return pushes.OnCrosses(event.what);
    case kPieceCrosses:
      return pieces.OnCrosses(event.what);
    case kCores:
      return cores.OnCores(event.what);
    case kChunkArrives:
      return inputs.OnChunkArrives(event.what);
    case kChunkDelivered:
      return inputs.OnChunkDelivered(event.what);
    case kWake:
      return members.OnTimer(event.what, event.at);
    default:
      return;
  }
}

void Cluster::Router::PrefetchEvent(const EventQueue::Event& event, int hop) {
  if (event.kind == kComputed) return compute.PrefetchEvent(event.what, hop);
  if (event.kind == kArrive || event.kind == kDeliver) pushes.PrefetchEvent(event, hop);
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
  Reached reached{status.events, status.step, status.checkpoint.value_or(0), coordinators.counts().resumes,
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
  ClusterResult result;
  static_cast<MemberCounts&>(result) = members.counts();
  static_cast<PushCounts&>(result) = servers.counts();
  static_cast<LeaseCounts&>(result) = coordinators.lease_counts();
  static_cast<GroupCounts&>(result) = groups.counts();
  static_cast<SubscriberCounts&>(result) = subscribers.counts();
  static_cast<OutageCounts&>(result) = outages.counts();
  static_cast<FaultCounts&>(result) = faults.counts();
  result.job_pauses = commands.job_pauses();
  static_cast<SliceCounts&>(result) = {.moves = moves.moves(),
                                       .moved_bytes = moves.moved_bytes(),
                                       .servers_left = members.servers_left(),
                                       .forwards = forwards.forwards(),
                                       .promotions = slice_check.promotions(),
                                       .replicated = coordinators.replicated()};
  static_cast<CheckpointCounts&>(result) = {.checkpoints = checkpoints.checkpoints(),
                                            .loads = shards.loads(),
                                            .damaged = disk.found_damaged(),
                                            .rounds_remade = disk.rounds_remade()};
  static_cast<SuccessionCounts&>(result) = coordinators.counts();
  result.restarts += hosts.restarts();
  result.elections = hosts.elections();
  result.sets = hosts.sets();
  result.violation = world.violation;
  if (result.violation) result.error = result.violation->ToString();
  result.failure = coordinators.failure();
  result.ended = !result.violation;
  result.took = world.now();
  result.messages = world.messages;
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
  return router_->world.messages;
}

CoordinatorStatus Cluster::status() const {
  return router_->coordinators.status();
}

bool Cluster::Values(std::vector<float>* values) const {
  return router_->processes.Values(values);
}

bool Cluster::Saved(std::vector<float>* values) const {
  return router_->shards.Saved(values);
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
