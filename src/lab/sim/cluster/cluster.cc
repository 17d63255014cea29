#include "lab/sim/cluster/cluster.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lab/sim/allreduce/bucket_reductions.h"
#include "lab/sim/allreduce/group_check.h"
#include "lab/sim/allreduce/group_connections.h"
#include "lab/sim/allreduce/group_members.h"
#include "lab/sim/allreduce/piece_messages.h"
#include "lab/sim/checkpoints/coordinator_checkpoints.h"
#include "lab/sim/checkpoints/disk.h"
#include "lab/sim/checkpoints/shard_files.h"
#include "lab/sim/cluster/world.h"
#include "lab/sim/faults/fault_injector.h"
#include "lab/sim/faults/outages.h"
#include "lab/sim/hosts/compute_tasks.h"
#include "lab/sim/hosts/host_links.h"
#include "lab/sim/leases/lease_check.h"
#include "lab/sim/leases/split_inputs.h"
#include "lab/sim/members/action_executor.h"
#include "lab/sim/members/control_calls.h"
#include "lab/sim/members/role_process.h"
#include "lab/sim/members/role_processes.h"
#include "lab/sim/push/push_messages.h"
#include "lab/sim/push/server_processes.h"
#include "lab/sim/slices/forward_messages.h"
#include "lab/sim/slices/move_transfers.h"
#include "lab/sim/slices/slice_check.h"
#include "lab/sim/subscribers/pull_messages.h"
#include "lab/sim/subscribers/subscriber_processes.h"
#include "lab/sim/succession/coordinator_hosts.h"
#include "lab/sim/succession/coordinator_processes.h"
#include "lab/sim/succession/standby_processes.h"

namespace leat::sim {

using namespace protocol;

namespace {

// With this many pending events, their data has long left the cache.
constexpr uint64_t kCrowd = 4096;

}  // namespace

// Owns the concerns, and hands each event to the one that scheduled it.
class Cluster::Router {
 public:
  Router(Cluster& cluster, ClusterOptions options, Workload& workload, Hooks hooks)
      : self(cluster), world(std::move(options), workload, std::move(hooks)) {}

  ClusterResult Run();
  bool Values(std::vector<float>* values) const;
  bool Saved(std::vector<float>* values) const;

  Cluster& self;
  World world;
  Disk disk;
  ProcessTable processes{world};
  HostLinks links{world};
  HostCores cores{world, links};
  Outages outages{world};
  ControlCalls calls{world, coordinators, standbys};
  AdminCommands commands{world, calls, coordinators};
  FaultInjector faults{world, processes, outages, members, executor, coordinators, hosts, commands};

  PushCheck push_check{world};
  SliceCheck slice_check{world, processes, coordinators, push_check};
  LeaseCheck lease_check{world, processes, disk, coordinators, hosts};
  GroupCheck group_check{world};

  RoleProcesses members{world,   processes, links, calls,       executor,
                        servers, groups,    pulls, slice_check, coordinators};
  ActionExecutor executor{members, shards, inputs, compute, pushes, moves, forwards, groups};
  ComputeTasks compute{world, processes, cores, executor};
  SplitInputs inputs{world, processes, links, cores, groups, executor, lease_check};
  ShardFiles shards{world, disk, faults, servers, members, executor, push_check};
  PushMessages pushes{world, processes, links, outages, faults, servers, members, executor};
  ServerProcesses servers{world,    cores, pushes, members,    moves,
                          forwards, pulls, faults, push_check, slice_check};
  MoveTransfers moves{world, processes, links, outages, faults, servers, members, executor, coordinators};
  ForwardMessages forwards{world,  processes, links,   cores,    outages,
                           faults, servers,   members, executor, coordinators};

  PieceMessages pieces{world, processes, links, cores, outages, connections, reductions};
  GroupConnections connections{world, processes, outages, pieces, groups};
  BucketReductions reductions{world, processes, pieces, connections, groups, group_check};
  GroupMembers groups{world, cores, pieces, connections, reductions, compute, executor, group_check};

  PullMessages pulls{world, processes, servers, subscribers};
  SubscriberProcesses subscribers{world, processes, calls, pulls, outages, coordinators};

  CoordinatorProcesses coordinators{world,       disk,      hosts,   checkpoints, faults,
                                    lease_check, processes, members, subscribers};
  CoordinatorHosts hosts{world, disk, coordinators, standbys, lease_check};
  StandbyProcesses standbys{world, disk, calls, coordinators, hosts};
  CoordinatorCheckpoints checkpoints{world, disk, coordinators, hosts, faults, shards};

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
      return cores.OnCores(event.what, [this](uint32_t task) {
        if (task < HostCores::kDecodes) return compute.OnComputed(task);
        inputs.OnDecoded(task - HostCores::kDecodes);
      });
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
  if (!world.hooks.watch(self)) {
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

bool Cluster::Router::Values(std::vector<float>* values) const {
  values->assign(world.elements, 0);
  std::vector<bool> there(world.slice_ranges.size(), false);
  const auto set = [&](uint32_t slice, std::span<const float> newest) {
    std::ranges::copy(newest, values->begin() + static_cast<std::ptrdiff_t>(world.slice_ranges[slice].begin));
    there[slice] = true;
  };
  // All-reduce: the values of the worker that is furthest.
  const GroupMemberParts* farthest = nullptr;
  for (const auto& p : processes.processes()) {
    if (!p || !p->group_member || !p->group_member->parameters || !p->group_member->machine->holds())
      continue;
    if (farthest == nullptr ||
        p->group_member->machine->state().header().step > farthest->machine->state().header().step)
      farthest = p->group_member.get();
  }
  for (uint32_t i = 0; farthest != nullptr && i < there.size(); ++i)
    set(i, farthest->parameters->values(SliceId(i)));
  // A server may still have an earlier state of a slice that has moved.
  std::vector<std::pair<Incarnation, uint64_t>> newest(there.size());
  for (const auto& p : processes.processes()) {
    if (!p || !p->server) continue;
    for (uint32_t i = 0; i < there.size(); ++i) {
      const Slice* slice = p->server->Find(SliceId(i));
      if (!slice || !slice->memory || std::pair(slice->incarnation, slice->version) < newest[i]) continue;
      newest[i] = {slice->incarnation, slice->version};
      set(i, slice->values());
    }
  }
  return std::ranges::find(there, false) == there.end();
}

bool Cluster::Router::Saved(std::vector<float>* values) const {
  values->assign(world.elements, 0);
  const Manifest* newest = disk.newest();
  if (newest == nullptr || world.modelled) return false;
  for (const ManifestShard& shard : newest->shards) {
    for (const SliceIncarnation& incarnation : shard.slices) {
      const auto slice = disk.Read(newest->directory, shard.file, incarnation.slice);
      if (!slice.ok()) return false;
      const ElementRange& range = world.slice_ranges[incarnation.slice.value];
      std::ranges::copy(slice->values(), values->begin() + static_cast<std::ptrdiff_t>(range.begin));
    }
  }
  return true;
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
  return router_->Values(values);
}

bool Cluster::Saved(std::vector<float>* values) const {
  return router_->Saved(values);
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
