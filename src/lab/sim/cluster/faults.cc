// Random and planned faults.
#include <algorithm>
#include <string>
#include <utility>

#include "lab/sim/cluster/cluster_state.h"

namespace leat::sim {

namespace {

std::string For(Duration lasts) {
  return "for " + std::to_string(Seconds(lasts)) + " s";
}

}  // namespace

void Cluster::State::Note(const std::string& what, const RoleProcess* p) const {
  if (!hooks.on_fault) return;
  if (p == nullptr) return hooks.on_fault(now(), "coordinator: " + what);
  const std::string name = (p->role == Role::kServer ? "server " : "worker ") + std::to_string(p->started);
  hooks.on_fault(now(), name + ": " + what);
}

void Cluster::State::InjectFault() {
  queue.After(FromSeconds(rng.Exponential(Seconds(options.faults.fault_interval))), [this] {
    if (!Faulty() || done) return;
    InjectFault();
    const auto c = coordinator;
    const bool on_servers = options.strategy.on_servers();
    if (on_servers && rng.Chance(options.faults.server_deaths)) {
      if (auto p = Any(Role::kServer)) Kill(p, true);
      return;
    }
    if (options.faults.isolations > 0 && rng.Chance(options.faults.isolations)) {
      const bool server = on_servers && rng.Chance(0.5);
      const auto p = Any(server ? Role::kServer : Role::kWorker);
      if (!p) return;
      const Duration lasts = Between(100, 1e3 * Seconds(options.faults.longest_cut));
      return rng.Chance(0.3) ? CutOff(p.get(), lasts) : Isolate(p, lasts);
    }
    if (on_servers && rng.Chance(options.faults.cut_pairs)) {
      const bool among_servers = options.replicas > 1 && rng.Chance(0.5);
      const auto one = Any(among_servers ? Role::kServer : Role::kWorker), server = Any(Role::kServer);
      if (one && server) CutPair(*one, *server, Between(100, 6000));
      return;
    }
    const double what = rng.Uniform();
    if (what < 0.30) {
      if (auto p = Any(Role::kWorker)) Kill(p, true);
    } else if (what < 0.42) {
      if (auto p = Any(Role::kWorker)) PauseRole(*p, DrawPause());
    } else if (what < 0.51) {
      if (auto p = Any(Role::kServer)) PauseRole(*p, DrawPause());
    } else if (what < 0.56) {
      PauseCoordinator(DrawPause());
    } else if (what < 0.63) {
      if (c->alive && !c->ended) TroubleCoordinator();
    } else if (what < 0.68) {
      StartOne(Role::kWorker, rng.Chance(0.3));
    } else if (what < 0.73) {
      if (auto p = Any(Role::kWorker); p && p->joined) Leave(p);
    } else if (what < 0.77) {
      if (auto p = Any(Role::kWorker)) Drain(*p);
    } else if (what < 0.81) {
      if (auto p = Any(Role::kWorker)) CutOff(p.get(), Between(100, 4000));
    } else if (what < 0.86 && on_servers) {
      StartOne(Role::kServer, false);
      if (auto p = Any(Role::kServer); p && rng.Chance(0.5)) Kill(p, false);
    } else if (what < 0.90 && on_servers) {
      if (auto p = Any(Role::kServer); p && p->joined) rng.Chance(0.5) ? Leave(p) : Drain(*p);
    } else {
      const bool save = what < 0.95;
      Note(save ? "is asked for a checkpoint" : "is told to stop, and the job is resumed");
      Tell({.kind = save ? AdminRequest::Kind::kCheckpoint : AdminRequest::Kind::kStop});
    }
  });
}

// Kills a worker or server, which starts again on its host.
void Cluster::State::InjectDeath() {
  const uint32_t processes = options.workers + options.servers;
  queue.After(
      FromSeconds(rng.Exponential(Seconds(options.deaths.mean_time_between) / processes)), [this, processes] {
        if (done || coordinator->ended) return;
        InjectDeath();
        const Role role = rng.Below(processes) < options.servers ? Role::kServer : Role::kWorker;
        const ProcessPtr p = Any(role);
        if (!p) return;
        ++result.deaths;
        Note("dies", p.get());
        OnExit(p);
        queue.After(options.deaths.restart, [this, role, host = p->host_index, standby = StandsBy(*p)] {
          if (!done && !coordinator->ended) Start(role, "", standby, host);
        });
      });
}

Duration Cluster::State::DrawPause() {
  const Duration longest = options.faults.longest_pause;
  if (longest > Duration(0) && rng.Chance(0.25)) return Between(1000, 1e3 * Seconds(longest));
  return Between(10, 2500);
}

bool Cluster::State::DiesAt(DeathPoint point, const ProcessPtr& p) {
  const bool push = point <= DeathPoint::kApplied;
  if (!Chance(push ? options.faults.deaths_in_pushes : options.faults.deaths_in_checkpoints)) return false;
  ++result.deaths_at[static_cast<size_t>(point)];
  Note("dies " + std::string(fields::NameOf(point)), p.get());
  Kill(p, true);
  return true;
}

bool Cluster::State::CoordinatorDiesAt(DeathPoint point, const CoordinatorPtr& c) {
  // Many checkpoints do not come so far, because servers and workers die at the points before.
  if (c != coordinator || !Chance(4 * options.faults.deaths_in_checkpoints)) return false;
  ++result.deaths_at[static_cast<size_t>(point)];
  Note("dies " + std::string(fields::NameOf(point)));
  KillCoordinator();
  return true;
}

// It dies; or another one takes over at the other address, while it runs, or is paused for some time.
void Cluster::State::TroubleCoordinator() {
  const auto c = coordinator;
  if (rng.Chance(0.5)) return KillCoordinator();
  ++result.overtaken;
  if (rng.Chance(0.7)) PauseCoordinator(DrawPause());
  queue.After(Between(0, 500), [this, c] {
    if (coordinator != c || c->ended) return;
    Note("another one takes over");
    StartCoordinator(1 - c->address, true);
  });
}

// A process that calls the newest coordinator.
std::shared_ptr<Process> Cluster::State::Admin() const {
  auto admin = std::make_shared<Process>();
  admin->calls = coordinator->address;
  return admin;
}

void Cluster::State::CarryToCoordinator(const PlannedFault& planned) {
  if (coordinator->ended || !coordinator->alive) return;
  if (OwnDirectories()) return KillAt(coordinator->address, planned.lasts);
  if (planned.what == PlannedFault::What::kKill) return KillCoordinator(planned.lasts, planned.index);
  if (planned.what == PlannedFault::What::kPause) return PauseCoordinator(planned.lasts);
  ++result.overtaken;
  Note("another one takes over");
  StartCoordinator(planned.index, true);
}

void Cluster::State::Carry(const PlannedFault& planned) {
  if (planned.what == PlannedFault::What::kPauseJob) return PauseJob(planned.lasts);
  if (planned.role == Role::kCoordinator) return CarryToCoordinator(planned);
  if (planned.what == PlannedFault::What::kStart) return StartOne(planned.role, planned.standby);
  const auto all = All(planned.role);
  if (planned.index >= all.size()) return;
  const ProcessPtr& p = all[planned.index];
  switch (planned.what) {
    case PlannedFault::What::kKill:
      ++result.deaths;
      Note("kill", p.get());
      OnExit(p);
      if (planned.replaced) {
        queue.After(std::chrono::seconds(1), [this, role = planned.role, standby = StandsBy(*p)] {
          if (!done) Start(role, "", standby);
        });
      }
      return;
    case PlannedFault::What::kPause:
      return PauseRole(*p, planned.lasts);
    case PlannedFault::What::kLeave:
      if (p->joined) Leave(p);
      return;
    case PlannedFault::What::kDrain:
      return Drain(*p);
    case PlannedFault::What::kCutOff:
      return CutOff(p.get(), planned.lasts);
    case PlannedFault::What::kStart:
    case PlannedFault::What::kPauseJob:
      return;
  }
}

void Cluster::State::Kill(const ProcessPtr& p, bool replace) {
  ++result.deaths;
  Note(replace ? "kill, replaced" : "kill", p.get());
  OnExit(p);
  if (p->joined && rng.Chance(0.5)) Tell({.kind = AdminRequest::Kind::kNodeLost, .node = p->node});
  if (!replace) return;
  const std::string address = rng.Chance(0.5) ? address_slots[p->address_id].address : "";
  queue.After(Between(10, 2000),
              [this, resumes = result.resumes, role = p->role, address, standby = StandsBy(*p)] {
                // Not for a job that was resumed meanwhile, with its own processes.
                if (resumes == result.resumes && !coordinator->ended &&
                    address_slots[AddressIdOf(address)].slot == AddressSlot::kNobody)
                  Start(role, address, standby);
              });
}

// Whether the process that replaces this one stands by, as in the local runner.
bool Cluster::State::StandsBy(const RoleProcess& p) const {
  return p.role == Role::kWorker && (p.standby || (p.joined && options.standby > 0));
}

// Starts one more process of a role.
void Cluster::State::StartOne(Role role, bool standby) {
  Note(std::string("another ") +
       (role == Role::kServer ? "server"
        : standby             ? "standby"
                              : "worker") +
       " starts");
  Start(role, "", standby);
}

void Cluster::State::Leave(const ProcessPtr& p) {
  Note("leaves", p.get());
  if (p->worker) Do(p, p->worker->Leave(now()));
  if (p->server) {
    p->server->Leave();
    MaybeSendHeartbeat(p);
  }
  if (!p->group_member) return;
  p->group_member->machine->Leave();
  MaybeSendHeartbeat(p);
}

void Cluster::State::Drain(const RoleProcess& p) {
  if (!p.joined || !coordinator->alive || coordinator->ended) return;
  Note("is told to leave", &p);
  if (p.role == Role::kServer) {
    static_cast<void>(coordinator->machine->DrainServer(now(), p.node));
  } else if (coordinator->machine->Drain(now(), p.node).ok()) {
    ++result.drained;
  }
}

// The launcher keeps the number of processes of each role.
void Cluster::State::Replace() {
  queue.After(Between(1000, 2000), [this] {
    Replace();
    if (!coordinator->alive || coordinator->ended) return;
    for (const auto& [role, wanted] :
         {std::pair(Role::kServer, options.servers), {Role::kWorker, options.workers + options.standby}}) {
      for (size_t n = All(role).size(); n < wanted; ++n)
        Start(role, "", role == Role::kWorker && options.standby > 0);
    }
  });
}

void Cluster::State::PauseRole(RoleProcess& p, Duration lasts) {
  Note("stops " + For(lasts), &p);
  Pause(&p, lasts);
}

void Cluster::State::PauseCoordinator(Duration lasts) {
  Note("stops " + For(lasts));
  Pause(coordinator.get(), lasts);
}

void Cluster::State::CutOff(RoleProcess* p, Duration lasts) {
  Note("does not reach the coordinator " + For(lasts), p);
  p->cut_off_until = now() + lasts;
}

void Cluster::State::Isolate(const ProcessPtr& p, Duration lasts) {
  Note("reaches nobody " + For(lasts), p.get());
  ++result.isolations;
  p->isolated_until = std::max(p->isolated_until, now() + lasts);
  p->cut_off_until = std::max(p->cut_off_until, now() + lasts);
}

void Cluster::State::Pause(Process* process, Duration lasts) {
  ++result.pauses;
  process->paused_until = std::max(process->paused_until, now() + lasts);
}

void Cluster::State::CutPair(const RoleProcess& worker, const RoleProcess& server, Duration lasts) {
  ++result.cuts;
  Note("does not reach server " + std::to_string(server.started) + " " + For(lasts), &worker);
  Time& until = cut_until[{worker.node, server.node}];
  until = std::max(until, now() + lasts);
}

bool Cluster::State::IsCut(NodeId worker, NodeId server) const {
  const auto at = cut_until.find({worker, server});
  return at != cut_until.end() && now() < at->second;
}

Cluster::State::ProcessPtr Cluster::State::Any(Role role) {
  const auto some = All(role);
  return some.empty() ? nullptr : some[rng.Below(some.size())];
}

std::vector<Cluster::State::ProcessPtr> Cluster::State::All(Role role) const {
  std::vector<ProcessPtr> all;
  for (const ProcessPtr& p : roles) {
    if (p && p->role == role) all.push_back(p);
  }
  return all;
}

}  // namespace leat::sim
