// Outages of a virtual cluster: processes that stop for a while, and networks that lose everything.
//
// A cut ends by itself. The concerns that send ask here whether their messages pass.
#pragma once

#include <map>
#include <utility>

#include "base/clock.h"
#include "lab/sim/cluster/world.h"
#include "lab/sim/members/role_process.h"

namespace leat::sim {

class Outages : Concern {
 public:
  using Concern::Concern;

  Duration DrawPause();
  void Pause(Process* process, Duration lasts);
  // As Pause, and tells the hook.
  void PauseRole(RoleProcess* p, Duration lasts);
  void PauseCoordinator(Process* coordinator, Duration lasts);

  // Cuts a process off from all coordinators.
  void CutOff(RoleProcess* p, Duration lasts);
  // Cuts the network between the two, in both directions.
  void CutPair(const RoleProcess& worker, const RoleProcess& server, Duration lasts);
  bool AnyCut() const { return !cut_until_.empty(); }
  bool IsCut(NodeId worker, NodeId server) const;
  // Cuts a process off from all others.
  void Isolate(RoleProcess* p, Duration lasts);
  // Whether messages between the two are lost, because one of them is isolated. Either may be null.
  bool Isolated(const RoleProcess* a, const RoleProcess* b) const {
    return counts_.isolations > 0 && (IsIsolated(a) || IsIsolated(b));
  }
  const OutageCounts& counts() const { return counts_; }

 private:
  bool IsIsolated(const RoleProcess* p) const { return p != nullptr && now() < p->isolated_until; }

  std::map<std::pair<NodeId, NodeId>, Time> cut_until_;  // by worker and server
  OutageCounts counts_;
};

}  // namespace leat::sim
