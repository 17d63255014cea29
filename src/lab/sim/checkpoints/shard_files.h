// Shards of checkpoints: servers and members of groups read slices from the disk, and write them to it.
//
// A disk takes its time, may be full, or may fail to read. Checks that a complete checkpoint has each slice
// once, with every run before its watermark (kCheckpointsWhole).
#pragma once

#include "lab/sim/members/role_process.h"
#include "protocol/actions.h"
#include "protocol/coordinator/coordinator.h"

namespace leat::sim {

class ActionExecutor;
class Disk;
class FaultInjector;
class PushCheck;
class RoleProcesses;
class ServerProcesses;

class ShardFiles {
 public:
  ShardFiles(World& world, Disk& disk, FaultInjector& faults, ServerProcesses& servers,
             RoleProcesses& members, ActionExecutor& executor, PushCheck& push_check)
      : world_(world),
        disk_(disk),
        faults_(faults),
        servers_(servers),
        members_(members),
        executor_(executor),
        push_check_(push_check) {}

  void Execute(const ProcessPtr& p, const protocol::LoadSlices& a);
  void Execute(const ProcessPtr& p, const protocol::SaveShard& a);
  void Check(const protocol::Manifest& manifest);

  // Slices read from a checkpoint.
  uint64_t loads() const { return loads_; }

 private:
  World& world_;
  Disk& disk_;
  FaultInjector& faults_;
  ServerProcesses& servers_;
  RoleProcesses& members_;
  ActionExecutor& executor_;
  PushCheck& push_check_;
  uint64_t loads_ = 0;
};

}  // namespace leat::sim
