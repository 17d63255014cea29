// Servers and workers: executes their machines' actions.
#include <algorithm>
#include <cmath>
#include <utility>

#include "lab/sim/cluster/cluster_state.h"

namespace leat::sim {

namespace {

// Minimum time between urgent heartbeats, as in the shells in roles/.
constexpr Duration kUrgentGap = std::chrono::milliseconds(10);

}  // namespace

void Cluster::State::StartAll() {
  for (uint32_t i = 0; i < options.servers; ++i) Start(Role::kServer);
  for (uint32_t i = 0; i < options.workers; ++i) Start(Role::kWorker);
  for (uint32_t i = 0; i < options.standby; ++i) Start(Role::kWorker, "", true);
  while (followers.size() < options.followers) StartFollower();
}

void Cluster::State::Start(Role role, std::string address, bool standby, uint32_t host) {
  auto p = std::make_shared<RoleProcess>();
  p->role = role;
  p->standby = standby;
  p->slot = static_cast<uint32_t>(roles.size());
  p->started = role == Role::kServer ? started_servers++ : started_workers++;
  PutOnHost(p.get(), host);
  if (Chance(options.faults.slow_links)) {
    const double bytes_per_s = 1e4 * std::pow(20, rng.Uniform());
    p->host->up.SetRate(bytes_per_s);
    p->host->down.SetRate(bytes_per_s);
  }
  // Only processes that others connect to have an address.
  if (role == Role::kServer || !options.strategy.on_servers()) {
    const char* const name = role == Role::kServer ? "ps-" : "worker-";
    p->address_id = AddressIdOf(address.empty() ? name + std::to_string(++last_address) : address);
    address_slots[p->address_id].slot = p->slot;
  }
  roles.push_back(p);
  JoinAgain(p);
}

void Cluster::State::JoinAgain(const ProcessPtr& p) {
  ++p->incarnation;
  p->joined = false;
  p->heartbeat_in_flight = false;
  p->connections.clear();
  p->input = {};
  p->owed = Duration(0);
  ForgetGroups(p);
  ForgetPulls(p);
  if (p->role == Role::kServer) {
    for (const auto& [ticket, since] : std::exchange(p->parked, {})) {
      FreeMessage(static_cast<uint32_t>(ticket));
    }
    p->server = std::make_unique<Server>(ServerConfig{.table = options.table,
                                                      .optimizer = options.optimizer,
                                                      .strategy = options.strategy,
                                                      .modelled = modelled,
                                                      .max_report_bytes = options.max_report_bytes});
  } else if (!options.strategy.on_servers()) {
    p->memory = workload.Join();
    p->progress = {};
    StartGroupMember(p);
  } else {
    WorkerConfig config;
    config.table = options.table;
    config.strategy = options.strategy;
    config.leases_ahead = options.leases_ahead;
    config.times.reply_timeout = options.reply_timeout;
    config.times.unreachable_after = options.unreachable_after;
    config.late_labels = LateLabels();
    config.always_pull = p->standby;
    p->worker.emplace(config);
    p->memory = workload.Join();
    p->progress = {};
  }
  ScheduleIn(p, Between(0, 30), [this, p] { Join(p); });
}

// As long as no coordinator answers, it votes as the node that it was before its eviction.
void Cluster::State::Join(const ProcessPtr& p) {
  const auto again = [this, p] { ScheduleIn(p, Between(20, 100), [this, p] { Join(p); }); };
  if (p->promises.node() == NodeId()) return AskToJoin(p, again);
  Call(p, p->promises.MakeHeartbeat(p->role), [this, p, again](const std::optional<ControlReply>& reply) {
    if (!reply) return again();
    const auto* candidacy = std::get_if<Candidacy>(&*reply);
    // A coordinator that was just elected waits for its electors; this member may be one of them.
    if (candidacy == nullptr) return p->promises.OnReply(*reply) ? AskToJoin(p, again) : again();
    Call(p, p->promises.OnCandidacy(*candidacy), [again](const auto&) { again(); });
  });
}

void Cluster::State::AskToJoin(const ProcessPtr& p, const std::function<void()>& again) {
  JoinRequest request;
  request.role = p->role;
  request.address = address_slots[p->address_id].address;
  request.process = p->slot + 1;
  request.standby = p->standby;
  request.place = PlaceOf(*p);
  request.round_trip = 2 * p->host->latency;
  if (!options.zones.empty()) request.round_trip += 2 * options.zones[p->host->zone].latency;
  Call(p, request, [this, p, again](std::optional<ControlReply> reply) {
    const auto* joined = reply ? std::get_if<JoinReply>(&*reply) : nullptr;
    if (!joined || !joined->status.ok()) return again();
    p->joined = true;
    p->node = joined->node;
    p->promises.OnJoined(p->node, joined->term);
    if (hooks.on_join) {
      JoinRequest known;
      known.role = p->role;
      known.address = address_slots[p->address_id].address;
      hooks.on_join(now(), p->node, known);
    }
    if (p->server) p->server->OnJoined(p->node, joined->term);
    if (p->worker) p->worker->OnJoined(p->node, joined->term);
    if (p->group_member) p->group_member->machine->OnJoined(p->node, joined->term);
    SendHeartbeat(p);
  });
}

void Cluster::State::SendHeartbeat(const ProcessPtr& p) {
  p->heartbeat_in_flight = true;
  p->last_heartbeat = now();
  ControlRequest request;
  if (p->server) {
    ServerHeartbeat heartbeat = p->server->MakeHeartbeat();
    heartbeat.progress.bytes_in = p->bytes_in;
    heartbeat.progress.bytes_out = p->bytes_out;
    heartbeat.progress.cpu_seconds = p->progress.cpu_seconds;
    servers[p->node] = heartbeat.progress;
    heartbeat.elector = p->promises.state();
    request = std::move(heartbeat);
  } else {
    WorkerHeartbeat heartbeat =
        p->worker ? p->worker->MakeHeartbeat(now()) : p->group_member->machine->MakeHeartbeat();
    heartbeat.progress = p->progress;
    if (p->memory) p->memory->FillProgress(&heartbeat.progress);
    heartbeat.elector = p->promises.state();
    if (!heartbeat.unreachable.empty()) ++result.unreachable;
    request = std::move(heartbeat);
  }
  Call(p, std::move(request), [this, p, incarnation = p->incarnation](std::optional<ControlReply> reply) {
    if (incarnation == p->incarnation) OnHeartbeatReply(p, reply);
  });
}

void Cluster::State::OnHeartbeatReply(const ProcessPtr& p, const std::optional<ControlReply>& reply) {
  p->heartbeat_in_flight = false;
  const uint64_t term = TermOf(*p);
  if (const auto* candidacy = reply ? std::get_if<Candidacy>(&*reply) : nullptr) {
    Call(p, p->promises.OnCandidacy(*candidacy), [](const auto&) {});
  } else if (reply && p->promises.OnReply(*reply)) {
    if (const auto* server = std::get_if<ServerHeartbeatReply>(&*reply)) {
      std::vector<SliceRef> before;
      std::vector<bool> replicas;
      if (options.check) {
        before = VersionsOf(*p);
        replicas = ReplicasOf(*p);
      }
      const uint32_t incarnation = p->incarnation;
      DoAll(p, p->server->OnHeartbeatReply(*server));
      if (options.check && Sound(p, incarnation)) CheckTakenOver(*p, before, replicas);
      if (p->alive && p->server) TakeReady(p);
    } else if (const auto* worker = std::get_if<WorkerHeartbeatReply>(&*reply)) {
      if (p->worker) {
        Do(p, p->worker->OnHeartbeatReply(now(), *worker));
      } else {
        Do(p, p->group_member->machine->OnHeartbeatReply(*worker));
      }
    }
  }
  if (p->alive && p->joined) CheckTerm(term, TermOf(*p));
  if (p->alive) Wake(p);
}

uint64_t Cluster::State::TermOf(const RoleProcess& p) const {
  return p.server ? p.server->term() : p.worker ? p.worker->term() : p.group_member->machine->term();
}

bool Cluster::State::Urgent(const RoleProcess& p) const {
  return p.worker         ? p.worker->HeartbeatUrgent()
         : p.group_member ? p.group_member->machine->HeartbeatUrgent()
                          : p.server->HeartbeatUrgent();
}

void Cluster::State::MaybeSendHeartbeat(const ProcessPtr& p) {
  if (!p->alive || !p->joined || p->heartbeat_in_flight) return;
  const Time due = p->last_heartbeat + (Urgent(*p) ? kUrgentGap : options.heartbeat_interval);
  if (due <= now()) return SendHeartbeat(p);
  WakeAt(p, due);
}

void Cluster::State::Wake(const ProcessPtr& p) {
  if (!p->joined) return;
  if (now() < p->paused_until) return WakeAt(p, p->paused_until);
  if (p->worker) {
    if (p->worker->next_timer() <= now()) Do(p, p->worker->OnTimer(now()));
    if (!p->alive || !p->joined) return;
    if (const Time next = p->worker->next_timer(); next != Time::max())
      WakeAt(p, std::max(next, now() + kUrgentGap));
  } else {
    if (p->server) ExpireParked(p);
    WakeAt(p, now() + options.heartbeat_interval);
  }
  MaybeSendHeartbeat(p);
}

void Cluster::State::WakeAt(const ProcessPtr& p, Time at) {
  if (p->wake_at <= at) return;
  p->wake_at = at;
  queue.At(at, kWake, p->slot);
}

// The process has ended. Its state is dropped, and messages to it find no receiver.
void Cluster::State::OnExit(const ProcessPtr& p) {
  p->alive = false;
  if (p->server && p->joined) {
    ServerProgress& last = servers[p->node];
    last = p->server->MakeHeartbeat().progress;
    last.bytes_in = p->bytes_in;
    last.bytes_out = p->bytes_out;
  }
  if (p->worker) {
    for (const ProcessPtr& server : roles) {
      if (server && server->server) ForgetParked(server, p->slot);
    }
  }
  ForgetGroups(p);
  ForgetPulls(p);
  for (const auto& [ticket, since] : std::exchange(p->parked, {})) {
    const auto m = static_cast<uint32_t>(ticket);
    Message& message = messages[m];
    const ProcessPtr& from = roles[message.from];
    if (message.wanted && from && from->incarnation == message.from_incarnation) {
      Fail(from, message.way->server, message.request->sequence);
    }
    FreeMessage(m);
  }
  if (AddressSlot& address_id = address_slots[p->address_id]; address_id.slot == p->slot)
    address_id.slot = AddressSlot::kNobody;
  roles[p->slot] = nullptr;
}

void Cluster::State::Act(const ProcessPtr& p, const StopRole& a) {
  const bool leaves = p->server && p->server->leaving();
  if (a.evicted && !leaves) return JoinAgain(p);
  if (!a.evicted && leaves) ++result.servers_left;
  OnExit(p);
}

void Cluster::State::Act(const ProcessPtr& p, const LoadSlices& a) {
  result.loads += a.orders.size();
  Duration read{0};
  for (const SliceOrder& order : a.orders) {
    if (!order.file.empty()) read += DiskTransfer(slice_ranges[order.slice.value].bytes());
    ScheduleIn(p, read + DiskTakes(), [this, p, incarnation = p->incarnation, order] {
      if (incarnation != p->incarnation) return;
      Result<Slice> slice = Status(Code::kUnavailable, "the disk does not answer");
      if (!Chance(options.faults.unreadable)) slice = disk.Read(order.directory, order.file, order.slice);
      if (options.check && slice.ok())
        applied_on[{order.slice, order.incarnation}].loaded = slice->ledger.partitions();
      if (p->group_member) return Do(p, p->group_member->machine->OnSliceLoaded(order, std::move(slice)));
      p->server->OnSliceLoaded(order, std::move(slice));
      TakeReady(p);
      MaybeSendHeartbeat(p);
    });
  }
}

void Cluster::State::Act(const ProcessPtr& p, const SaveShard& a) {
  uint64_t bytes = 0;
  for (const auto& slice : a.slices) bytes += slice_ranges[slice->id.value].bytes();
  ScheduleIn(p, DiskTransfer(bytes) + 3 * DiskTakes(), [this, p, incarnation = p->incarnation, a] {
    if (incarnation != p->incarnation || DiesAt(DeathPoint::kBeforeShard, p)) return;
    ShardReport report;
    report.checkpoint = a.order.id;
    report.file = "shard-" + ToString(p->node);
    if (Chance(options.faults.full_disk)) {
      report.status = Status(Code::kResourceExhausted, "the disk is full");
    } else {
      disk.Write(a.order.directory, report.file, a.slices);
    }
    if (DiesAt(DeathPoint::kShardSaved, p)) return;
    if (p->server) {
      p->server->OnShardSaved(std::move(report));
    } else {
      p->group_member->machine->OnShardSaved(std::move(report));
    }
    MaybeSendHeartbeat(p);
  });
}

void Cluster::State::Act(const ProcessPtr& p, const PrepareSplit& a) {
  if (options.check) CheckLease(*p, a.lease);
  if (p->group_member) p->group_member->leases[a.lease.id] = a.lease;
  if (HasInput()) {
    p->input.waiting.push_back({a.lease.id, a.lease.cut.events()});
    return ReadNext(p);
  }
  ScheduleIn(p, options.prepare.Draw(rng), [this, p, incarnation = p->incarnation, id = a.lease.id] {
    if (incarnation == p->incarnation) SplitReady(p, id);
  });
}

void Cluster::State::Act(const ProcessPtr& p, const DropSplit& a) {
  if (p->group_member) p->group_member->leases.erase(a.lease);
}

void Cluster::State::Act(const ProcessPtr& p, const Compute& a) {
  const BatchOutcome outcome = Train(p, *p->worker->FindLease(a.lease), a.batch, a.first);
  ComputedAfter(p, DrawCompute(p.get()), a.token, outcome);
}

BatchOutcome Cluster::State::Train(const ProcessPtr& p, const Lease& lease, uint32_t batch, bool first) {
  Trained trained;
  if (p->memory) {
    trained = p->memory->Compute(lease, batch, first);
  } else {
    const uint64_t before = uint64_t{batch} * lease.cut.batch_size;
    trained.outcome.events =
        static_cast<uint32_t>(std::min<uint64_t>(lease.cut.batch_size, lease.cut.events() - before));
  }
  ++p->progress.steps;
  if (trained.outcome.disposition == Disposition::kRejected) {
    ++p->progress.rejected_batches;
  } else {
    p->progress.events += trained.outcome.events;
    p->progress.loss_sum += trained.loss_sum;
    p->progress.correct += trained.correct;
  }
  return trained.outcome;
}

Duration Cluster::State::DrawCompute(RoleProcess* p) {
  double seconds = Seconds(options.compute.Draw(rng));
  if (p->started < options.slowness.size()) seconds *= options.slowness[p->started];
  seconds = seconds / p->speed + Seconds(std::exchange(p->owed, Duration(0)));
  p->progress.cpu_seconds += seconds;
  return FromSeconds(seconds);
}

void Cluster::State::OnComputed(uint32_t index) {
  const Computation computation = computations[index];
  const ProcessPtr p = roles[computation.slot];
  if (p && now() < p->paused_until) return queue.At(p->paused_until, kComputed, index);
  computations.Free(index);
  if (!p || p->incarnation != computation.incarnation) return;
  if (p->group_member) {
    p->group_member->computing = 0;
    return Do(p, p->group_member->machine->OnComputed(computation.token, computation.outcome));
  }
  Do(p, p->worker->OnComputed(now(), computation.token, computation.outcome));
}

}  // namespace leat::sim
