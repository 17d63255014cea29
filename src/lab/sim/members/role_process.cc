#include "lab/sim/members/role_process.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>
#include <variant>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

namespace {

template <class A, class... As>
constexpr bool kOneOf = (std::is_same_v<A, As> || ...);

// `what` of the machine of a process.
auto OfMachine(const RoleProcess& p, const auto& what) {
  return p.server ? what(*p.server) : p.worker ? what(*p.worker) : what(*p.group_member->machine);
}

}  // namespace

void RoleProcesses::StartAll() {
  for (uint32_t i = 0; i < options_.servers; ++i) Start(Role::kServer);
  for (uint32_t i = 0; i < options_.workers; ++i) Start(Role::kWorker);
  for (uint32_t i = 0; i < options_.standby; ++i) Start(Role::kWorker, "", true);
}

void RoleProcesses::Start(Role role, std::string address, bool standby, uint32_t host) {
  const ProcessPtr p = processes_.Add(role, standby, address);
  all_.machines.PutOnHost(p.get(), host);
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
  all_.subscribers.ForgetServer(p);
  if (p->role == Role::kServer) {
    all_.servers.EndParked(p.get(), &PushMessages::Free);
    p->server = std::make_unique<Server>(ServerConfig{.table = options_.table,
                                                      .optimizer = options_.optimizer,
                                                      .strategy = options_.strategy,
                                                      .modelled = world_.modelled,
                                                      .max_report_bytes = options_.max_report_bytes});
  } else {
    p->memory = world_.workload.Join();
    p->progress = {};
    if (!options_.strategy.on_servers()) all_.groups.Start(p);
  }
  if (p->role == Role::kWorker && options_.strategy.on_servers()) {
    WorkerConfig config;
    config.table = options_.table;
    config.strategy = options_.strategy;
    config.leases_ahead = options_.leases_ahead;
    config.times.reply_timeout = options_.reply_timeout;
    config.times.unreachable_after = options_.unreachable_after;
    config.late_labels = world_.LateLabels();
    config.always_pull = p->standby;
    p->worker = std::make_unique<Worker>(config);
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
  request.place = all_.machines.PlaceOf(*p);
  request.round_trip = all_.machines.RoundTripOf(*p);
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
    if (!heartbeat.unreachable.empty()) ++result_.unreachable;
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
      ExecuteAll(p, p->server->OnHeartbeatReply(*server));
      if (options_.check && SameServer(*p, incarnation)) all_.slice_check.CheckTakenOver(*p, before);
      if (p->alive && p->server) all_.servers.Advance(p);
    } else if (const auto* worker = std::get_if<WorkerHeartbeatReply>(&*reply)) {
      if (p->worker) {
        ExecuteAll(p, p->worker->OnHeartbeatReply(now(), *worker));
      } else {
        ExecuteAll(p, p->group_member->machine->OnHeartbeatReply(*worker));
      }
    }
  }
  if (p->alive && p->joined) all_.coordinators.CheckTerm(term, TermOf(*p));
  if (p->alive) Wake(p);
}

uint64_t RoleProcesses::TermOf(const RoleProcess& p) const {
  return OfMachine(p, [](const auto& machine) { return machine.term(); });
}

bool RoleProcesses::Urgent(const RoleProcess& p) const {
  return OfMachine(p, [](const auto& machine) { return machine.HeartbeatUrgent(); });
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
    if (p->worker->next_timer() <= now()) ExecuteAll(p, p->worker->OnTimer(now()));
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
  all_.subscribers.ForgetServer(p);
  all_.servers.EndParked(p.get(), &PushMessages::Abandon);
  processes_.Remove(*p);
}

void RoleProcesses::Execute(const ProcessPtr& p, const StopRole& a) {
  const bool leaves = p->server && p->server->leaving();
  if (a.evicted && !leaves) return JoinAgain(p);
  if (!a.evicted && leaves) ++result_.servers_left;
  OnExit(p);
}

template <class Actions>
void RoleProcesses::ExecuteAll(const ProcessPtr& p, const Actions& actions) {
  const auto execute = [&]<class A>(const A& action) {
    if constexpr (kOneOf<A, StopRole>) {
      Execute(p, action);
    } else if constexpr (kOneOf<A, LoadSlices, SaveShard>) {
      all_.checkpoints.Execute(p, action);
    } else if constexpr (kOneOf<A, PrepareSplit, DropSplit, Compute>) {
      all_.machines.Execute(p, action);
    } else if constexpr (kOneOf<A, SendPush, Disconnect>) {
      all_.pushes.Execute(p, action);
    } else if constexpr (kOneOf<A, ConnectMove, SendMove, DropMove, AnswerMove, Forward, DropLink>) {
      all_.servers.Execute(p, action);
    } else {
      all_.groups.Execute(p, action);
    }
  };
  const uint32_t incarnation = p->incarnation;
  for (const auto& action : actions) {
    if (!p->alive || p->incarnation != incarnation) break;
    std::visit(execute, action);
  }
  if (!p->server && p->alive && p->joined && !p->heartbeat_in_flight && Urgent(*p)) MaybeSendHeartbeat(p);
}

template void RoleProcesses::ExecuteAll(const ProcessPtr& p, const WorkerActions& actions);
template void RoleProcesses::ExecuteAll(const ProcessPtr& p, const GroupMemberActions& actions);
template void RoleProcesses::ExecuteAll(const ProcessPtr& p, const std::vector<ServerAction>& actions);
template void RoleProcesses::ExecuteAll(const ProcessPtr& p, const std::vector<MoveAction>& actions);
template void RoleProcesses::ExecuteAll(const ProcessPtr& p, const std::vector<ForwardAction>& actions);

ProcessPtr ProcessTable::Add(Role role, bool standby, const std::string& address) {
  auto p = std::make_shared<RoleProcess>();
  p->role = role;
  p->standby = standby;
  p->slot = static_cast<uint32_t>(by_slot_.size());
  p->started = role == Role::kServer ? started_servers_++ : started_workers_++;
  // Only processes that others connect to have an address.
  if (role == Role::kServer || !options_.strategy.on_servers()) {
    const char* const name = role == Role::kServer ? "ps-" : "worker-";
    p->address_id = AddressIdOf(address.empty() ? name + std::to_string(++last_address_) : address);
    addresses_[p->address_id].slot = p->slot;
  }
  by_slot_.push_back(p);
  return p;
}

void ProcessTable::Remove(const RoleProcess& p) {
  if (Address& address = addresses_[p.address_id]; address.slot == p.slot) address.slot = kNobody;
  by_slot_[p.slot] = nullptr;
}

std::vector<ProcessPtr> ProcessTable::All(Role role) const {
  std::vector<ProcessPtr> all;
  for (const ProcessPtr& p : by_slot_) {
    if (p && p->role == role) all.push_back(p);
  }
  return all;
}

ProcessPtr ProcessTable::Any(Role role) {
  const auto some = All(role);
  return some.empty() ? nullptr : some[rng_.Below(some.size())];
}

uint32_t ProcessTable::AddressIdOf(const std::string& address) {
  if (address.empty()) return 0;
  const auto [at, fresh] = address_ids_.try_emplace(address, static_cast<uint32_t>(addresses_.size()));
  if (fresh) addresses_.push_back({address});
  return at->second;
}

bool ProcessTable::Values(std::vector<float>* values) const {
  values->assign(world_.elements, 0);
  std::vector<bool> there(world_.slice_ranges.size(), false);
  const auto set = [&](uint32_t slice, std::span<const float> newest) {
    std::ranges::copy(newest,
                      values->begin() + static_cast<std::ptrdiff_t>(world_.slice_ranges[slice].begin));
    there[slice] = true;
  };
  // All-reduce: the values of the worker that is furthest.
  const GroupMemberParts* farthest = nullptr;
  for (const auto& p : by_slot_) {
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
  for (const auto& p : by_slot_) {
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

}  // namespace leat::sim
