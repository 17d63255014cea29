#include "lab/sim/members/role_processes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

namespace {

// Minimum time between urgent heartbeats, as in the shells in roles/.
constexpr Duration kUrgentGap = std::chrono::milliseconds(10);

}  // namespace

void RoleProcesses::StartAll() {
  for (uint32_t i = 0; i < options_.servers; ++i) Start(Role::kServer);
  for (uint32_t i = 0; i < options_.workers; ++i) Start(Role::kWorker);
  for (uint32_t i = 0; i < options_.standby; ++i) Start(Role::kWorker, "", true);
}

void RoleProcesses::Start(Role role, std::string address, bool standby, uint32_t host) {
  const ProcessPtr p = processes_.Add(role, standby, address);
  all_.links.PutOnHost(p.get(), host);
  if (Chance(options_.faults.slow_links)) {
    const double bytes_per_s = 1e4 * std::pow(20, rng_.Uniform());
    p->host->up.SetRate(bytes_per_s);
    p->host->down.SetRate(bytes_per_s);
  }
  JoinAgain(p);
}

void RoleProcesses::JoinAgain(const ProcessPtr& p) {
  ++p->incarnation;
  p->joined = false;
  p->heartbeat_in_flight = false;
  p->connections.clear();
  p->input = {};
  p->owed = Duration(0);
  all_.groups.Forget(p);
  all_.pulls.ForgetServer(p);
  if (p->role == Role::kServer) {
    all_.servers.FreeParked(p.get());
    p->server = std::make_unique<Server>(ServerConfig{.table = options_.table,
                                                      .optimizer = options_.optimizer,
                                                      .strategy = options_.strategy,
                                                      .modelled = world_.modelled,
                                                      .max_report_bytes = options_.max_report_bytes});
  } else if (!options_.strategy.on_servers()) {
    p->memory = world_.workload.Join();
    p->progress = {};
    all_.groups.Start(p);
  } else {
    WorkerConfig config;
    config.table = options_.table;
    config.strategy = options_.strategy;
    config.leases_ahead = options_.leases_ahead;
    config.times.reply_timeout = options_.reply_timeout;
    config.times.unreachable_after = options_.unreachable_after;
    config.late_labels = world_.LateLabels();
    config.always_pull = p->standby;
    p->worker = std::make_unique<Worker>(config);
    p->memory = world_.workload.Join();
    p->progress = {};
  }
  ScheduleIn(p, Between(0, 30), [this, p] { Join(p); });
}

// As long as no coordinator answers, it votes as the node that it was before its eviction.
void RoleProcesses::Join(const ProcessPtr& p) {
  const auto again = [this, p] { ScheduleIn(p, Between(20, 100), [this, p] { Join(p); }); };
  if (p->promises.node() == NodeId()) return AskToJoin(p, again);
  all_.calls.Call(
      p, p->promises.MakeHeartbeat(p->role), [this, p, again](const std::optional<ControlReply>& reply) {
        if (!reply) return again();
        const auto* candidacy = std::get_if<Candidacy>(&*reply);
        // A coordinator that was just elected waits for its electors; this member may be one of them.
        if (candidacy == nullptr) return p->promises.OnReply(*reply) ? AskToJoin(p, again) : again();
        all_.calls.Call(p, p->promises.OnCandidacy(*candidacy), [again](const auto&) { again(); });
      });
}

void RoleProcesses::AskToJoin(const ProcessPtr& p, const std::function<void()>& again) {
  JoinRequest request;
  request.role = p->role;
  request.address = processes_.AddressOf(p->address_id);
  request.process = p->slot + 1;
  request.standby = p->standby;
  request.place = all_.links.PlaceOf(*p);
  request.round_trip = all_.links.RoundTripOf(*p);
  all_.calls.Call(p, request, [this, p, again](std::optional<ControlReply> reply) {
    const auto* joined = reply ? std::get_if<JoinReply>(&*reply) : nullptr;
    if (!joined || !joined->status.ok()) return again();
    p->joined = true;
    p->node = joined->node;
    p->promises.OnJoined(p->node, joined->term);
    if (world_.hooks.on_join) {
      JoinRequest known;
      known.role = p->role;
      known.address = processes_.AddressOf(p->address_id);
      world_.hooks.on_join(now(), p->node, known);
    }
    if (p->server) p->server->OnJoined(p->node, joined->term);
    if (p->worker) p->worker->OnJoined(p->node, joined->term);
    if (p->group_member) p->group_member->machine->OnJoined(p->node, joined->term);
    SendHeartbeat(p);
  });
}

void RoleProcesses::SendHeartbeat(const ProcessPtr& p) {
  p->heartbeat_in_flight = true;
  p->last_heartbeat = now();
  ControlRequest request;
  if (p->server) {
    ServerHeartbeat heartbeat = p->server->MakeHeartbeat();
    heartbeat.progress.bytes_in = p->bytes.in;
    heartbeat.progress.bytes_out = p->bytes.out;
    heartbeat.progress.cpu_seconds = p->progress.cpu_seconds;
    progress_[p->node] = heartbeat.progress;
    heartbeat.elector = p->promises.state();
    request = std::move(heartbeat);
  } else {
    WorkerHeartbeat heartbeat =
        p->worker ? p->worker->MakeHeartbeat(now()) : p->group_member->machine->MakeHeartbeat();
    heartbeat.progress = p->progress;
    if (p->memory) p->memory->FillProgress(&heartbeat.progress);
    heartbeat.elector = p->promises.state();
    if (!heartbeat.unreachable.empty()) ++counts_.unreachable;
    request = std::move(heartbeat);
  }
  all_.calls.Call(p, std::move(request),
                  [this, p, incarnation = p->incarnation](std::optional<ControlReply> reply) {
                    if (incarnation == p->incarnation) OnHeartbeatReply(p, reply);
                  });
}

void RoleProcesses::OnHeartbeatReply(const ProcessPtr& p, const std::optional<ControlReply>& reply) {
  p->heartbeat_in_flight = false;
  const uint64_t term = TermOf(*p);
  if (const auto* candidacy = reply ? std::get_if<Candidacy>(&*reply) : nullptr) {
    all_.calls.Call(p, p->promises.OnCandidacy(*candidacy), [](const auto&) {});
  } else if (reply && p->promises.OnReply(*reply)) {
    if (const auto* server = std::get_if<ServerHeartbeatReply>(&*reply)) {
      SliceCheck::Before before;
      if (options_.check) before = all_.slice_check.SlicesOf(*p);
      const uint32_t incarnation = p->incarnation;
      all_.executor.Execute(p, p->server->OnHeartbeatReply(*server));
      if (options_.check && SameServer(*p, incarnation)) all_.slice_check.CheckTakenOver(*p, before);
      if (p->alive && p->server) all_.servers.Advance(p);
    } else if (const auto* worker = std::get_if<WorkerHeartbeatReply>(&*reply)) {
      if (p->worker) {
        all_.executor.Execute(p, p->worker->OnHeartbeatReply(now(), *worker));
      } else {
        all_.executor.Execute(p, p->group_member->machine->OnHeartbeatReply(*worker));
      }
    }
  }
  if (p->alive && p->joined) all_.coordinators.CheckTerm(term, TermOf(*p));
  if (p->alive) Wake(p);
}

uint64_t RoleProcesses::TermOf(const RoleProcess& p) const {
  return p.server ? p.server->term() : p.worker ? p.worker->term() : p.group_member->machine->term();
}

bool RoleProcesses::Urgent(const RoleProcess& p) const {
  return p.worker         ? p.worker->HeartbeatUrgent()
         : p.group_member ? p.group_member->machine->HeartbeatUrgent()
                          : p.server->HeartbeatUrgent();
}

void RoleProcesses::MaybeSendHeartbeat(const ProcessPtr& p) {
  if (!p->alive || !p->joined || p->heartbeat_in_flight) return;
  const Time due = p->last_heartbeat + (Urgent(*p) ? kUrgentGap : options_.heartbeat_interval);
  if (due <= now()) return SendHeartbeat(p);
  WakeAt(p, due);
}

void RoleProcesses::Wake(const ProcessPtr& p) {
  if (!p->joined) return;
  if (now() < p->paused_until) return WakeAt(p, p->paused_until);
  if (p->worker) {
    if (p->worker->next_timer() <= now()) all_.executor.Execute(p, p->worker->OnTimer(now()));
    if (!p->alive || !p->joined) return;
    if (const Time next = p->worker->next_timer(); next != Time::max())
      WakeAt(p, std::max(next, now() + kUrgentGap));
  } else {
    if (p->server) all_.servers.ExpireParked(p);
    WakeAt(p, now() + options_.heartbeat_interval);
  }
  MaybeSendHeartbeat(p);
}

void RoleProcesses::OnTimer(uint32_t slot, Time at) {
  const ProcessPtr p = processes_[slot];
  if (!p || p->wake_at != at) return;
  p->wake_at = Time::max();
  Wake(p);
}

void RoleProcesses::WakeAt(const ProcessPtr& p, Time at) {
  if (p->wake_at <= at) return;
  p->wake_at = at;
  queue_.At(at, kWake, p->slot);
}

void RoleProcesses::OnExit(const ProcessPtr& p) {
  p->alive = false;
  if (p->server && p->joined) {
    ServerProgress& last = progress_[p->node];
    last = p->server->MakeHeartbeat().progress;
    last.bytes_in = p->bytes.in;
    last.bytes_out = p->bytes.out;
  }
  if (p->worker) {
    for (const ProcessPtr& server : processes_.processes()) {
      if (server && server->server) all_.servers.ForgetParked(server, p->slot);
    }
  }
  all_.groups.Forget(p);
  all_.pulls.ForgetServer(p);
  all_.servers.AbandonParked(p.get());
  processes_.Remove(*p);
}

void RoleProcesses::Execute(const ProcessPtr& p, const StopRole& a) {
  const bool leaves = p->server && p->server->leaving();
  if (a.evicted && !leaves) return JoinAgain(p);
  if (!a.evicted && leaves) ++servers_left_;
  OnExit(p);
}

}  // namespace leat::sim
