// The concerns of a virtual cluster. Each owns its state; the rest of it is private.
#pragma once

#include "lab/sim/allreduce/group_members.h"
#include "lab/sim/allreduce/group_network.h"
#include "lab/sim/checkpoints/disk.h"
#include "lab/sim/cluster/world.h"
#include "lab/sim/faults/fault_injector.h"
#include "lab/sim/hosts/machines.h"
#include "lab/sim/leases/lease_check.h"
#include "lab/sim/members/role_process.h"
#include "lab/sim/push/push_messages.h"
#include "lab/sim/slices/server_processes.h"
#include "lab/sim/subscribers/subscribers.h"
#include "lab/sim/succession/coordinators.h"

namespace leat::sim {

struct ClusterConcerns {
  ClusterConcerns(ClusterOptions options, Workload& workload, Hooks hooks)
      : world(std::move(options), workload, std::move(hooks)) {}

  World world;
  Disk disk;
  ProcessTable processes{*this};
  Machines machines{*this};
  FaultInjector faults{*this};
  ControlCalls calls{*this};
  RoleProcesses members{*this};
  PushMessages pushes{*this};
  ServerProcesses servers{*this};
  GroupNetwork network{*this};
  GroupMembers groups{*this};
  CheckpointFiles checkpoints{*this};
  Subscribers subscribers{*this};
  CoordinatorProcesses coordinators{*this};
  CoordinatorHosts hosts{*this};
  // ---- invariants
  SliceCheck slice_check{*this};
  LeaseCheck lease_check{*this};
};

}  // namespace leat::sim
