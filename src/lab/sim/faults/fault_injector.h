// Faults of a virtual cluster: random ones, planned ones, and deaths at named points; and outages, in which
// processes stop for a while, or networks lose everything.
//
// A fault is drawn from the run's random numbers, so the order of the draws here is part of every seed's
// result. Faults end with Faults::until. A cut ends by itself; the concerns that send ask here whether their
// messages pass.
#pragma once

#include <map>
#include <utility>

#include "lab/sim/members/role_process.h"
#include "lab/sim/succession/coordinators.h"
#include "protocol/messages_control.h"

namespace leat::sim {

class FaultInjector : Concern {
 public:
  using Concern::Concern;

  // Schedules the random faults of members and coordinators, and what replaces lost processes.
  void InjectFaults();
  // Schedules random deaths of processes, which start again on their hosts.
  void InjectDeaths();
  // Schedules a planned fault.
  void Plan(const PlannedFault& planned) {
    queue_.After(planned.at, [this, planned] { Carry(planned); });
  }

  // True if the process dies here.
  bool DiesAt(DeathPoint point, const ProcessPtr& p);
  bool CoordinatorDiesAt(DeathPoint point, const CoordinatorPtr& c);
  void Kill(const ProcessPtr& p, bool replace);
  // The coordinator dies; or another one takes over at the other address, while it runs, or is paused for
  // some time.
  void TroubleCoordinator();

  // ---- outages
  Duration DrawPause();
  void Pause(Process* process, Duration lasts);
  bool AnyCut() const { return !cut_until_.empty(); }
  // Whether the network between the two is cut.
  bool IsCut(NodeId worker, NodeId server) const;
  // Whether messages between the two are lost, because one of them is isolated. Either may be null.
  bool Isolated(const RoleProcess* a, const RoleProcess* b) const {
    return result_.isolations > 0 && (IsIsolated(a) || IsIsolated(b));
  }

 private:
  void InjectFault();
  void InjectStandbyFault();
  void Carry(const PlannedFault& planned);
  void CarryToCoordinator(const PlannedFault& planned);
  // Whether an elector may die, and a majority stays: there are enough, and all are alive and known to the
  // coordinator.
  bool ElectorsAreWhole() const;
  // Whether the process that replaces this one stands by, as in the local runner.
  bool StandsBy(const RoleProcess& p) const;
  void Leave(const ProcessPtr& p);
  void Drain(const RoleProcess& p);
  // Keeps the number of processes of each role, as the launcher does.
  void Replace();
  // Starts one more process of a role.
  void StartOne(protocol::Role role, bool standby);
  // As Pause, and tell the hook.
  void PauseRole(RoleProcess* p, Duration lasts);
  void PauseCoordinator(Duration lasts);
  // Cuts a process off from all coordinators.
  void CutOff(RoleProcess* p, Duration lasts);
  // Cuts a process off from all others.
  void Isolate(RoleProcess* p, Duration lasts);
  bool IsIsolated(const RoleProcess* p) const { return p != nullptr && now() < p->isolated_until; }

  // The network between a worker and a server, in both directions.
  std::map<std::pair<NodeId, NodeId>, Time> cut_until_;
};

}  // namespace leat::sim
