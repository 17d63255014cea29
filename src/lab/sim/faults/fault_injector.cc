#include "lab/sim/faults/fault_injector.h"

#include <algorithm>
#include <string>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

namespace {

std::string For(Duration lasts) {
  return "for " + std::to_string(Seconds(lasts)) + " s";
}

}  // namespace

void FaultInjector::InjectFaults() {
  Replace();
  world_.OwnDirectories() ? InjectStandbyFault() : InjectFault();
}

void FaultInjector::InjectFault() {
  queue_.After(FromSeconds(rng_.Exponential(Seconds(options_.faults.fault_interval))), [this] {
    if (!world_.Faulty() || world_.done) return;
    InjectFault();
    const auto c = all_.coordinators.newest();
    const bool on_servers = options_.strategy.on_servers();
    if (on_servers && rng_.Chance(options_.faults.server_deaths)) {
      if (auto p = processes_.Any(Role::kServer)) Kill(p, true);
      return;
    }
    if (options_.faults.isolations > 0 && rng_.Chance(options_.faults.isolations)) {
      const bool server = on_servers && rng_.Chance(0.5);
      const auto p = processes_.Any(server ? Role::kServer : Role::kWorker);
      if (!p) return;
      const Duration lasts = Between(100, 1e3 * Seconds(options_.faults.longest_cut));
      return rng_.Chance(0.3) ? CutOff(p.get(), lasts) : Isolate(p.get(), lasts);
    }
    if (on_servers && rng_.Chance(options_.faults.cut_pairs)) {
      const bool among_servers = options_.replicas > 1 && rng_.Chance(0.5);
      const auto one = processes_.Any(among_servers ? Role::kServer : Role::kWorker),
                 server = processes_.Any(Role::kServer);
      if (!one || !server) return;
      ++result_.cuts;
      const Duration lasts = Between(100, 6000);
      world_.TellFault("does not reach server " + std::to_string(server->started) + " " + For(lasts),
                       one.get());
      Time& until = cut_until_[{one->node, server->node}];
      until = std::max(until, now() + lasts);
      return;
    }
    const double what = rng_.Uniform();
    if (what < 0.30) {
      if (auto p = processes_.Any(Role::kWorker)) Kill(p, true);
    } else if (what < 0.42) {
      if (auto p = processes_.Any(Role::kWorker)) PauseRole(p.get(), DrawPause());
    } else if (what < 0.51) {
      if (auto p = processes_.Any(Role::kServer)) PauseRole(p.get(), DrawPause());
    } else if (what < 0.56) {
      PauseCoordinator(DrawPause());
    } else if (what < 0.63) {
      if (c->active()) TroubleCoordinator();
    } else if (what < 0.68) {
      StartOne(Role::kWorker, rng_.Chance(0.3));
    } else if (what < 0.73) {
      if (auto p = processes_.Any(Role::kWorker); p && p->joined) Leave(p);
    } else if (what < 0.77) {
      if (auto p = processes_.Any(Role::kWorker)) Drain(*p);
    } else if (what < 0.81) {
      if (auto p = processes_.Any(Role::kWorker)) CutOff(p.get(), Between(100, 4000));
    } else if (what < 0.86 && on_servers) {
      StartOne(Role::kServer, false);
      if (auto p = processes_.Any(Role::kServer); p && rng_.Chance(0.5)) Kill(p, false);
    } else if (what < 0.90 && on_servers) {
      if (auto p = processes_.Any(Role::kServer); p && p->joined) rng_.Chance(0.5) ? Leave(p) : Drain(*p);
    } else {
      const bool save = what < 0.95;
      world_.TellFault(save ? "is asked for a checkpoint" : "is told to stop, and the job is resumed");
      all_.calls.Tell({.kind = save ? AdminRequest::Kind::kCheckpoint : AdminRequest::Kind::kStop});
    }
  });
}

void FaultInjector::InjectDeaths() {
  const uint32_t processes = options_.workers + options_.servers;
  queue_.After(FromSeconds(rng_.Exponential(Seconds(options_.deaths.mean_time_between) / processes)),
               [this, processes] {
                 if (world_.done || all_.coordinators.newest()->ended) return;
                 InjectDeaths();
                 const Role role = rng_.Below(processes) < options_.servers ? Role::kServer : Role::kWorker;
                 const ProcessPtr p = processes_.Any(role);
                 if (!p) return;
                 ++result_.deaths;
                 world_.TellFault("dies", p.get());
                 all_.members.OnExit(p);
                 queue_.After(options_.deaths.restart,
                              [this, role, host = p->host_index, standby = StandsBy(*p)] {
                                if (!world_.done && !all_.coordinators.newest()->ended)
                                  all_.members.Start(role, "", standby, host);
                              });
               });
}

bool FaultInjector::DiesAt(DeathPoint point, const ProcessPtr& p) {
  const bool push = point <= DeathPoint::kApplied;
  if (!Chance(push ? options_.faults.deaths_in_pushes : options_.faults.deaths_in_checkpoints)) return false;
  ++result_.deaths_at[static_cast<size_t>(point)];
  world_.TellFault("dies " + std::string(fields::NameOf(point)), p.get());
  Kill(p, true);
  return true;
}

bool FaultInjector::CoordinatorDiesAt(DeathPoint point, const CoordinatorPtr& c) {
  // Many checkpoints do not come so far, because servers and workers die at the points before.
  if (c != all_.coordinators.newest() || !Chance(4 * options_.faults.deaths_in_checkpoints)) return false;
  ++result_.deaths_at[static_cast<size_t>(point)];
  world_.TellFault("dies " + std::string(fields::NameOf(point)));
  all_.coordinators.Kill();
  return true;
}

void FaultInjector::TroubleCoordinator() {
  const auto c = all_.coordinators.newest();
  if (rng_.Chance(0.5)) return all_.coordinators.Kill();
  ++result_.overtaken;
  if (rng_.Chance(0.7)) PauseCoordinator(DrawPause());
  queue_.After(Between(0, 500), [this, c] {
    if (all_.coordinators.newest() != c || c->ended) return;
    world_.TellFault("another one takes over");
    all_.coordinators.Start(1 - c->address, true);
  });
}

void FaultInjector::CarryToCoordinator(const PlannedFault& planned) {
  if (!all_.coordinators.newest()->active()) return;
  if (world_.OwnDirectories()) return all_.hosts.KillAt(all_.coordinators.newest()->address, planned.lasts);
  if (planned.what == PlannedFault::What::kKill) return all_.coordinators.Kill(planned.lasts, planned.index);
  if (planned.what == PlannedFault::What::kPause) return PauseCoordinator(planned.lasts);
  ++result_.overtaken;
  world_.TellFault("another one takes over");
  all_.coordinators.Start(planned.index, true);
}

void FaultInjector::Carry(const PlannedFault& planned) {
  if (planned.what == PlannedFault::What::kPauseJob) return all_.calls.PauseJob(planned.lasts);
  if (planned.role == Role::kCoordinator) return CarryToCoordinator(planned);
  if (planned.what == PlannedFault::What::kStart) return StartOne(planned.role, planned.standby);
  const auto all = processes_.All(planned.role);
  if (planned.index >= all.size()) return;
  const ProcessPtr& p = all[planned.index];
  switch (planned.what) {
    case PlannedFault::What::kKill:
      ++result_.deaths;
      world_.TellFault("kill", p.get());
      all_.members.OnExit(p);
      if (planned.replaced) {
        queue_.After(std::chrono::seconds(1), [this, role = planned.role, standby = StandsBy(*p)] {
          if (!world_.done) all_.members.Start(role, "", standby);
        });
      }
      return;
    case PlannedFault::What::kPause:
      return PauseRole(p.get(), planned.lasts);
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

void FaultInjector::Kill(const ProcessPtr& p, bool replace) {
  ++result_.deaths;
  world_.TellFault(replace ? "kill, replaced" : "kill", p.get());
  all_.members.OnExit(p);
  if (p->joined && rng_.Chance(0.5))
    all_.calls.Tell({.kind = AdminRequest::Kind::kNodeLost, .node = p->node});
  if (!replace) return;
  const std::string address = rng_.Chance(0.5) ? processes_.AddressOf(p->address_id) : "";
  queue_.After(Between(10, 2000),
               [this, resumes = result_.resumes, role = p->role, address, standby = StandsBy(*p)] {
                 // Not for a job that was resumed meanwhile, with its own processes.
                 if (resumes == result_.resumes && !all_.coordinators.newest()->ended &&
                     !processes_.At(processes_.AddressIdOf(address)))
                   all_.members.Start(role, address, standby);
               });
}

bool FaultInjector::StandsBy(const RoleProcess& p) const {
  return p.role == Role::kWorker && (p.standby || (p.joined && options_.standby > 0));
}

void FaultInjector::StartOne(Role role, bool standby) {
  world_.TellFault(std::string("another ") +
                   (role == Role::kServer ? "server"
                    : standby             ? "standby"
                                          : "worker") +
                   " starts");
  all_.members.Start(role, "", standby);
}

void FaultInjector::Leave(const ProcessPtr& p) {
  world_.TellFault("leaves", p.get());
  if (p->worker) all_.members.ExecuteAll(p, p->worker->Leave(now()));
  if (p->server) {
    p->server->Leave();
    all_.members.MaybeSendHeartbeat(p);
  }
  if (!p->group_member) return;
  p->group_member->machine->Leave();
  all_.members.MaybeSendHeartbeat(p);
}

void FaultInjector::Drain(const RoleProcess& p) {
  if (!p.joined || !all_.coordinators.newest()->active()) return;
  world_.TellFault("is told to leave", &p);
  if (p.role == Role::kServer) {
    static_cast<void>(all_.coordinators.newest()->machine->DrainServer(now(), p.node));
  } else if (all_.coordinators.newest()->machine->Drain(now(), p.node).ok()) {
    ++result_.drained;
  }
}

void FaultInjector::Replace() {
  queue_.After(Between(1000, 2000), [this] {
    Replace();
    if (!all_.coordinators.newest()->active()) return;
    for (const auto& [role, wanted] :
         {std::pair(Role::kServer, options_.servers), {Role::kWorker, options_.workers + options_.standby}}) {
      for (size_t n = processes_.All(role).size(); n < wanted; ++n)
        all_.members.Start(role, "", role == Role::kWorker && options_.standby > 0);
    }
  });
}

bool FaultInjector::ElectorsAreWhole() const {
  const auto& c = all_.coordinators.newest();
  if (!c->active() || now() < c->paused_until || !c->own->replication.founded()) return false;
  const View view = c->machine->status().view;
  const auto all = processes_.All(world_.ElectorRole());
  const auto known = std::ranges::count(view.members, world_.ElectorRole(), &Member::role);
  const Electorate& electorate = c->own->replication.electorate();
  const std::vector<NodeId> electors = electorate.newest();
  if (!electorate.Settled() || (!electorate.Empty() && electors.size() < 3)) return false;
  return all.size() >= 3 && static_cast<size_t>(known) == all.size() &&
         c->own->replication.agreed() == c->own->position &&
         std::ranges::all_of(electors, [&](NodeId node) { return view.Find(node) != nullptr; }) &&
         std::ranges::all_of(all,
                             [&](const ProcessPtr& p) { return p->joined && view.Find(p->node) != nullptr; });
}

void FaultInjector::InjectStandbyFault() {
  queue_.After(FromSeconds(rng_.Exponential(Seconds(options_.faults.fault_interval))), [this] {
    if (!world_.Faulty() || world_.done) return;
    InjectStandbyFault();
    const uint32_t count = 1 + options_.coordinator_standbys;
    const uint32_t address =
        rng_.Chance(0.5) ? all_.coordinators.newest()->address : static_cast<uint32_t>(rng_.Below(count));
    const auto process = all_.hosts.ProcessAt(address);
    const double longest = std::max(2500., Seconds(options_.faults.longest_pause) * 1e3);
    const double what = rng_.Uniform();
    if (what < 0.25) {
      all_.hosts.KillAt(address, Between(10, rng_.Chance(0.3) ? 10000 : 2000));
    } else if (what < 0.45) {
      if (process) Pause(process.get(), Between(10, longest));
    } else if (what < 0.60) {
      // The network between two coordinators.
      const auto other = static_cast<uint32_t>((address + 1 + rng_.Below(count - 1)) % count);
      const Time until = now() + Between(100, 5000);
      if (process) process->cut_from_until[other] = until;
      if (const auto there = all_.hosts.ProcessAt(other)) there->cut_from_until[address] = until;
    } else if (what < 0.75) {
      // A part of the members loses one of them.
      const Time until = now() + Between(100, 4000);
      for (const ProcessPtr& p : processes_.processes()) {
        if (p && rng_.Chance(0.5)) p->cut_from_until[address] = until;
      }
    } else if (what < 0.85) {
      if (auto p = processes_.Any(rng_.Chance(0.5) ? Role::kWorker : world_.ElectorRole()))
        Pause(p.get(), Between(10, 1500));
    } else if (const Role role = rng_.Chance(0.5) ? Role::kWorker : world_.ElectorRole();
               role != world_.ElectorRole() || ElectorsAreWhole()) {
      if (auto p = processes_.Any(role)) Kill(p, true);
    } else {
      all_.calls.Tell({.kind = AdminRequest::Kind::kCheckpoint});
    }
  });
}

// ---- outages

Duration FaultInjector::DrawPause() {
  const Duration longest = options_.faults.longest_pause;
  if (longest > Duration(0) && rng_.Chance(0.25)) return Between(1000, 1e3 * Seconds(longest));
  return Between(10, 2500);
}

void FaultInjector::Pause(Process* process, Duration lasts) {
  ++result_.pauses;
  process->paused_until = std::max(process->paused_until, now() + lasts);
}

void FaultInjector::PauseRole(RoleProcess* p, Duration lasts) {
  world_.TellFault("stops " + For(lasts), p);
  Pause(p, lasts);
}

void FaultInjector::PauseCoordinator(Duration lasts) {
  world_.TellFault("stops " + For(lasts));
  Pause(all_.coordinators.newest().get(), lasts);
}

void FaultInjector::CutOff(RoleProcess* p, Duration lasts) {
  world_.TellFault("does not reach the coordinator " + For(lasts), p);
  p->cut_off_until = now() + lasts;
}

bool FaultInjector::IsCut(NodeId worker, NodeId server) const {
  const auto at = cut_until_.find({worker, server});
  return at != cut_until_.end() && now() < at->second;
}

void FaultInjector::Isolate(RoleProcess* p, Duration lasts) {
  world_.TellFault("reaches nobody " + For(lasts), p);
  ++result_.isolations;
  p->isolated_until = std::max(p->isolated_until, now() + lasts);
  p->cut_off_until = std::max(p->cut_off_until, now() + lasts);
}

}  // namespace leat::sim
