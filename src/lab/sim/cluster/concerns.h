// The concerns of a virtual cluster. Each owns its state; the rest of it is private.
#pragma once

#include "lab/sim/allreduce/bucket_reductions.h"
#include "lab/sim/allreduce/group_check.h"
#include "lab/sim/allreduce/group_connections.h"
#include "lab/sim/allreduce/group_members.h"
#include "lab/sim/allreduce/piece_messages.h"
#include "lab/sim/checkpoints/coordinator_checkpoints.h"
#include "lab/sim/checkpoints/disk.h"
#include "lab/sim/checkpoints/shard_files.h"
#include "lab/sim/cluster/world.h"
#include "lab/sim/faults/fault_injector.h"
#include "lab/sim/faults/outages.h"
#include "lab/sim/hosts/compute_tasks.h"
#include "lab/sim/hosts/host_links.h"
#include "lab/sim/leases/lease_check.h"
#include "lab/sim/leases/split_inputs.h"
#include "lab/sim/members/action_executor.h"
#include "lab/sim/members/control_calls.h"
#include "lab/sim/members/role_process.h"
#include "lab/sim/members/role_processes.h"
#include "lab/sim/push/push_messages.h"
#include "lab/sim/push/server_processes.h"
#include "lab/sim/slices/forward_messages.h"
#include "lab/sim/slices/move_transfers.h"
#include "lab/sim/slices/slice_check.h"
#include "lab/sim/subscribers/pull_messages.h"
#include "lab/sim/subscribers/subscriber_processes.h"
#include "lab/sim/succession/coordinator_hosts.h"
#include "lab/sim/succession/coordinator_processes.h"
#include "lab/sim/succession/standby_processes.h"

namespace leat::sim {

struct ClusterConcerns {
  ClusterConcerns(ClusterOptions options, Workload& workload, Hooks hooks)
      : world(std::move(options), workload, std::move(hooks)) {}

  World world;
  Disk disk;
  ProcessTable processes{*this};
  HostLinks links{*this};
  HostCores cores{*this};
  Outages outages{*this};
  FaultInjector faults{*this};
  ControlCalls calls{*this};
  AdminCommands commands{*this};
  RoleProcesses members{*this};
  ActionExecutor executor{*this};
  ComputeTasks compute{*this};
  SplitInputs inputs{*this};
  PushMessages pushes{*this};
  ServerProcesses servers{*this};
  MoveTransfers moves{*this};
  ForwardMessages forwards{*this};
  PieceMessages pieces{*this};
  GroupConnections connections{*this};
  BucketReductions reductions{*this};
  GroupMembers groups{*this};
  ShardFiles shards{*this};
  CoordinatorCheckpoints checkpoints{*this};
  PullMessages pulls{*this};
  SubscriberProcesses subscribers{*this};
  CoordinatorProcesses coordinators{*this};
  CoordinatorHosts hosts{*this};
  StandbyProcesses standbys{*this};
  // ---- invariants
  PushCheck push_check{*this};
  SliceCheck slice_check{*this};
  LeaseCheck lease_check{*this};
  GroupCheck group_check{*this};
};

}  // namespace leat::sim
