#include "lab/sim/faults/fault_injector.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lab/sim/faults/outages.h"
#include "lab/sim/members/action_executor.h"
#include "lab/sim/members/control_calls.h"
#include "lab/sim/members/role_processes.h"
#include "lab/sim/succession/coordinator_hosts.h"

namespace leat::sim {

using namespace protocol;

void FaultInjector::InjectFaults() {
  Replace();
  world_.OwnDirectories() ? InjectStandbyFault() : InjectFault();
}

void FaultInjector::Plan(const PlannedFault& planned) {
  world_.queue.After(planned.at, [this, planned] { Carry(planned); });
}

void FaultInjector::InjectFault() {
  world_.queue.After(
      FromSeconds(world_.rng.Exponential(Seconds(world_.options.faults.fault_interval))), [this] {
        if (!world_.Faulty() || world_.done) return;
        InjectFault();
        const auto c = coordinators_.newest();
        const bool on_servers = world_.options.strategy.on_servers();
        if (on_servers && world_.rng.Chance(world_.options.faults.server_deaths)) {
          if (auto p = processes_.Any(Role::kServer)) Kill(p, true);
          return;
        }
        if (world_.options.faults.isolations > 0 && world_.rng.Chance(world_.options.faults.isolations)) {
          const bool server = on_servers && world_.rng.Chance(0.5);
          const auto p = processes_.Any(server ? Role::kServer : Role::kWorker);
          if (!p) return;
          const Duration lasts = world_.Between(100, 1e3 * Seconds(world_.options.faults.longest_cut));
          return world_.rng.Chance(0.3) ? outages_.CutOff(p.get(), lasts) : outages_.Isolate(p.get(), lasts);
        }
        if (on_servers && world_.rng.Chance(world_.options.faults.cut_pairs)) {
          const bool among_servers = world_.options.replicas > 1 && world_.rng.Chance(0.5);
          const auto one = processes_.Any(among_servers ? Role::kServer : Role::kWorker),
                     server = processes_.Any(Role::kServer);
          if (one && server) outages_.CutPair(*one, *server, world_.Between(100, 6000));
          return;
        }
        const double what = world_.rng.Uniform();
        if (what < 0.30) {
          if (auto p = processes_.Any(Role::kWorker)) Kill(p, true);
        } else if (what < 0.42) {
          if (auto p = processes_.Any(Role::kWorker)) outages_.PauseRole(p.get(), outages_.DrawPause());
        } else if (what < 0.51) {
          if (auto p = processes_.Any(Role::kServer)) outages_.PauseRole(p.get(), outages_.DrawPause());
        } else if (what < 0.56) {
          outages_.PauseCoordinator(coordinators_.newest().get(), outages_.DrawPause());
        } else if (what < 0.63) {
          if (c->active()) TroubleCoordinator();
        } else if (what < 0.68) {
          StartOne(Role::kWorker, world_.rng.Chance(0.3));
        } else if (what < 0.73) {
          if (auto p = processes_.Any(Role::kWorker); p && p->joined) Leave(p);
        } else if (what < 0.77) {
          if (auto p = processes_.Any(Role::kWorker)) Drain(*p);
        } else if (what < 0.81) {
          if (auto p = processes_.Any(Role::kWorker)) outages_.CutOff(p.get(), world_.Between(100, 4000));
        } else if (what < 0.86 && on_servers) {
          StartOne(Role::kServer, false);
          if (auto p = processes_.Any(Role::kServer); p && world_.rng.Chance(0.5)) Kill(p, false);
        } else if (what < 0.90 && on_servers) {
          if (auto p = processes_.Any(Role::kServer); p && p->joined)
            world_.rng.Chance(0.5) ? Leave(p) : Drain(*p);
        } else {
          const bool save = what < 0.95;
          world_.TellFault(save ? "is asked for a checkpoint" : "is told to stop, and the job is resumed");
          commands_.Tell({.kind = save ? AdminRequest::Kind::kCheckpoint : AdminRequest::Kind::kStop});
        }
      });
}

void FaultInjector::InjectDeaths() {
  const uint32_t processes = world_.options.workers + world_.options.servers;
  world_.queue.After(
      FromSeconds(world_.rng.Exponential(Seconds(world_.options.deaths.mean_time_between) / processes)),
      [this, processes] {
        if (world_.done || coordinators_.newest()->ended) return;
        InjectDeaths();
        const Role role =
            world_.rng.Below(processes) < world_.options.servers ? Role::kServer : Role::kWorker;
        const ProcessPtr p = processes_.Any(role);
        if (!p) return;
        ++counts_.deaths;
        world_.TellFault("dies", p.get());
        members_.OnExit(p);
        world_.queue.After(world_.options.deaths.restart,
                           [this, role, host = p->host_index, standby = StandsBy(*p)] {
                             if (!world_.done && !coordinators_.newest()->ended)
                               members_.Start(role, "", standby, host);
                           });
      });
}

bool FaultInjector::DiesAt(DeathPoint point, const ProcessPtr& p) {
  const bool push = point <= DeathPoint::kApplied;
  if (!world_.Chance(push ? world_.options.faults.deaths_in_pushes
                          : world_.options.faults.deaths_in_checkpoints))
    return false;
  ++counts_.deaths_at[static_cast<size_t>(point)];
  world_.TellFault("dies " + std::string(fields::NameOf(point)), p.get());
  Kill(p, true);
  return true;
}

bool FaultInjector::CoordinatorDiesAt(DeathPoint point, const CoordinatorPtr& c) {
  // Many checkpoints do not come so far, because servers and workers die at the points before.
  if (c != coordinators_.newest() || !world_.Chance(4 * world_.options.faults.deaths_in_checkpoints))
    return false;
  ++counts_.deaths_at[static_cast<size_t>(point)];
  world_.TellFault("dies " + std::string(fields::NameOf(point)));
  coordinators_.Kill();
  return true;
}

void FaultInjector::TroubleCoordinator() {
  const auto c = coordinators_.newest();
  if (world_.rng.Chance(0.5)) return coordinators_.Kill();
  ++counts_.overtaken;
  if (world_.rng.Chance(0.7)) outages_.PauseCoordinator(coordinators_.newest().get(), outages_.DrawPause());
  world_.queue.After(world_.Between(0, 500), [this, c] {
    if (coordinators_.newest() != c || c->ended) return;
    world_.TellFault("another one takes over");
    coordinators_.Start(1 - c->address, true);
  });
}

void FaultInjector::CarryToCoordinator(const PlannedFault& planned) {
  if (!coordinators_.newest()->active()) return;
  if (world_.OwnDirectories()) return hosts_.KillAt(coordinators_.newest()->address, planned.lasts);
  if (planned.what == PlannedFault::What::kKill) return coordinators_.Kill(planned.lasts, planned.index);
  if (planned.what == PlannedFault::What::kPause)
    return outages_.PauseCoordinator(coordinators_.newest().get(), planned.lasts);
  ++counts_.overtaken;
  world_.TellFault("another one takes over");
  coordinators_.Start(planned.index, true);
}

void FaultInjector::Carry(const PlannedFault& planned) {
  if (planned.what == PlannedFault::What::kPauseJob) return commands_.PauseJob(planned.lasts);
  if (planned.role == Role::kCoordinator) return CarryToCoordinator(planned);
  if (planned.what == PlannedFault::What::kStart) return StartOne(planned.role, planned.standby);
  const auto all = processes_.All(planned.role);
  if (planned.index >= all.size()) return;
  const ProcessPtr& p = all[planned.index];
  switch (planned.what) {
    case PlannedFault::What::kKill:
      ++counts_.deaths;
      world_.TellFault("kill", p.get());
      members_.OnExit(p);
      if (planned.replaced) {
        world_.queue.After(std::chrono::seconds(1), [this, role = planned.role, standby = StandsBy(*p)] {
          if (!world_.done) members_.Start(role, "", standby);
        });
      }
      return;
    case PlannedFault::What::kPause:
      return outages_.PauseRole(p.get(), planned.lasts);
    case PlannedFault::What::kLeave:
      if (p->joined) Leave(p);
      return;
    case PlannedFault::What::kDrain:
      return Drain(*p);
    case PlannedFault::What::kCutOff:
      return outages_.CutOff(p.get(), planned.lasts);
    case PlannedFault::What::kStart:
    case PlannedFault::What::kPauseJob:
      return;
  }
}

void FaultInjector::Kill(const ProcessPtr& p, bool replace) {
  ++counts_.deaths;
  world_.TellFault(replace ? "kill, replaced" : "kill", p.get());
  members_.OnExit(p);
  if (p->joined && world_.rng.Chance(0.5))
    commands_.Tell({.kind = AdminRequest::Kind::kNodeLost, .node = p->node});
  if (!replace) return;
  const std::string address = world_.rng.Chance(0.5) ? processes_.AddressOf(p->address_id) : "";
  world_.queue.After(world_.Between(10, 2000), [this, resumes = coordinators_.counts().resumes,
                                                role = p->role, address, standby = StandsBy(*p)] {
    // Not for a job that was resumed meanwhile, with its own processes.
    if (resumes == coordinators_.counts().resumes && !coordinators_.newest()->ended &&
        processes_.SlotAt(processes_.AddressIdOf(address)) == ProcessTable::kNobody)
      members_.Start(role, address, standby);
  });
}

bool FaultInjector::StandsBy(const RoleProcess& p) const {
  return p.role == Role::kWorker && (p.standby || (p.joined && world_.options.standby > 0));
}

void FaultInjector::StartOne(Role role, bool standby) {
  world_.TellFault(std::string("another ") +
                   (role == Role::kServer ? "server"
                    : standby             ? "standby"
                                          : "worker") +
                   " starts");
  members_.Start(role, "", standby);
}

void FaultInjector::Leave(const ProcessPtr& p) {
  world_.TellFault("leaves", p.get());
  if (p->worker) executor_.Execute(p, p->worker->Leave(world_.now()));
  if (p->server) {
    p->server->Leave();
    members_.MaybeSendHeartbeat(p);
  }
  if (!p->group_member) return;
  p->group_member->machine->Leave();
  members_.MaybeSendHeartbeat(p);
}

void FaultInjector::Drain(const RoleProcess& p) {
  if (!p.joined || !coordinators_.newest()->active()) return;
  world_.TellFault("is told to leave", &p);
  if (p.role == Role::kServer) {
    static_cast<void>(coordinators_.newest()->machine->DrainServer(world_.now(), p.node));
  } else if (coordinators_.newest()->machine->Drain(world_.now(), p.node).ok()) {
    ++counts_.drained;
  }
}

void FaultInjector::Replace() {
  world_.queue.After(world_.Between(1000, 2000), [this] {
    Replace();
    if (!coordinators_.newest()->active()) return;
    for (const auto& [role, wanted] : {std::pair(Role::kServer, world_.options.servers),
                                       {Role::kWorker, world_.options.workers + world_.options.standby}}) {
      for (size_t n = processes_.All(role).size(); n < wanted; ++n)
        members_.Start(role, "", role == Role::kWorker && world_.options.standby > 0);
    }
  });
}

bool FaultInjector::ElectorsAreWhole() const {
  const auto& c = coordinators_.newest();
  if (!c->active() || world_.now() < c->paused_until || !c->own->replication.founded()) return false;
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
  world_.queue.After(
      FromSeconds(world_.rng.Exponential(Seconds(world_.options.faults.fault_interval))), [this] {
        if (!world_.Faulty() || world_.done) return;
        InjectStandbyFault();
        const uint32_t count = 1 + world_.options.coordinator_standbys;
        const uint32_t address = world_.rng.Chance(0.5) ? coordinators_.newest()->address
                                                        : static_cast<uint32_t>(world_.rng.Below(count));
        const auto process = hosts_.ProcessAt(address);
        const double longest = std::max(2500., Seconds(world_.options.faults.longest_pause) * 1e3);
        const double what = world_.rng.Uniform();
        if (what < 0.25) {
          hosts_.KillAt(address, world_.Between(10, world_.rng.Chance(0.3) ? 10000 : 2000));
        } else if (what < 0.45) {
          if (process) outages_.Pause(process.get(), world_.Between(10, longest));
        } else if (what < 0.60) {
          // The network between two coordinators.
          const auto other = static_cast<uint32_t>((address + 1 + world_.rng.Below(count - 1)) % count);
          const Time until = world_.now() + world_.Between(100, 5000);
          if (process) process->cut_from_until[other] = until;
          if (const auto there = hosts_.ProcessAt(other)) there->cut_from_until[address] = until;
        } else if (what < 0.75) {
          // A part of the members loses one of them.
          const Time until = world_.now() + world_.Between(100, 4000);
          for (const ProcessPtr& p : processes_.processes()) {
            if (p && world_.rng.Chance(0.5)) p->cut_from_until[address] = until;
          }
        } else if (what < 0.85) {
          if (auto p = processes_.Any(world_.rng.Chance(0.5) ? Role::kWorker : world_.ElectorRole()))
            outages_.Pause(p.get(), world_.Between(10, 1500));
        } else if (const Role role = world_.rng.Chance(0.5) ? Role::kWorker : world_.ElectorRole();
                   role != world_.ElectorRole() || ElectorsAreWhole()) {
          if (auto p = processes_.Any(role)) Kill(p, true);
        } else {
          commands_.Tell({.kind = AdminRequest::Kind::kCheckpoint});
        }
      });
}

}  // namespace leat::sim
