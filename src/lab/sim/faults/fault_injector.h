// Faults of a virtual cluster: random ones, planned ones, and deaths at named points.
//
// A fault is drawn from the run's random numbers, so the order of the draws here is part of every seed's
// result. Faults end with Faults::until.
#pragma once

#include <cstdint>
#include <memory>

#include "lab/sim/members/role_process.h"
#include "lab/sim/succession/coordinator_processes.h"
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
  void Plan(const PlannedFault& planned);

  // True if the process dies here.
  bool DiesAt(DeathPoint point, const ProcessPtr& p);
  bool CoordinatorDiesAt(DeathPoint point, const CoordinatorPtr& c);
  void Kill(const ProcessPtr& p, bool replace);
  // The coordinator dies; or another one takes over at the other address, while it runs, or is paused for
  // some time.
  void TroubleCoordinator();

  const FaultCounts& counts() const { return counts_; }

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

  FaultCounts counts_;
};

}  // namespace leat::sim
