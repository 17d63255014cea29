// The coordinator's half of checkpoints: orders, manifests and their removal, on a disk that may be slow or
// full.
//
// A manifest that could not be written may be complete all the same. The coordinator may die before and after
// it is complete; a crash in between leaves a checkpoint that was never announced.
#pragma once

#include "lab/sim/succession/coordinator_processes.h"
#include "protocol/coordinator/coordinator.h"

namespace leat::sim {

class CoordinatorCheckpoints : Concern {
 public:
  using Concern::Concern;

  void Execute(const CoordinatorPtr& c, const protocol::PrepareCheckpoint& a);
  void Execute(const CoordinatorPtr& c, const protocol::CommitManifest& a);
  void Execute(const CoordinatorPtr& c, const protocol::DropCheckpoints& a);
  void Execute(const CoordinatorPtr& c, const protocol::RemoveCheckpoint& a);
  void Execute(const CoordinatorPtr& c, const protocol::VerifyCheckpoint& a);

  // Complete ones.
  uint64_t checkpoints() const { return checkpoints_; }

 private:
  // False if a later coordinator has claimed its term.
  bool Commit(const CoordinatorProcess& c, const protocol::Manifest& manifest);

  uint64_t checkpoints_ = 0;
};

}  // namespace leat::sim
