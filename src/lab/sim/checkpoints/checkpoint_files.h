// Checkpoints on a disk that takes its time, may be full, or may fail to read: orders and manifests of
// coordinators, and the shards of servers and members of groups.
//
// A manifest that could not be written may be complete all the same. The coordinator may die before and after
// it is complete; a crash in between leaves a checkpoint that was never announced. Checks that a complete
// checkpoint has each slice once, with every run before its watermark (kCheckpointsWhole).
#pragma once

#include <vector>

#include "lab/sim/succession/coordinator_processes.h"
#include "protocol/actions.h"

namespace leat::sim {

class CheckpointFiles : Concern {
 public:
  using Concern::Concern;

  // ---- coordinators
  void Execute(const CoordinatorPtr& c, const protocol::PrepareCheckpoint& a);
  void Execute(const CoordinatorPtr& c, const protocol::CommitManifest& a);
  void Execute(const CoordinatorPtr& c, const protocol::DropCheckpoints& a);
  void Execute(const CoordinatorPtr& c, const protocol::RemoveCheckpoint& a);
  void Execute(const CoordinatorPtr& c, const protocol::VerifyCheckpoint& a);
  // ---- servers and members
  void Execute(const ProcessPtr& p, const protocol::LoadSlices& a);
  void Execute(const ProcessPtr& p, const protocol::SaveShard& a);

  // The values of all slices in the newest checkpoint, in table order; false if there is none.
  bool Saved(std::vector<float>* values) const;

 private:
  Duration TransferTime(uint64_t bytes) const;
  void Check(const protocol::Manifest& manifest);
};

}  // namespace leat::sim
