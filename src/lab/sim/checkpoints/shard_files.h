// Shards of checkpoints: servers and members of groups read slices from the disk, and write them to it.
//
// A disk takes its time, may be full, or may fail to read. Checks that a complete checkpoint has each slice
// once, with every run before its watermark (kCheckpointsWhole).
#pragma once

#include <vector>

#include "lab/sim/members/role_process.h"
#include "protocol/actions.h"
#include "protocol/coordinator/coordinator.h"

namespace leat::sim {

class ShardFiles : Concern {
 public:
  using Concern::Concern;

  void Execute(const ProcessPtr& p, const protocol::LoadSlices& a);
  void Execute(const ProcessPtr& p, const protocol::SaveShard& a);
  void Check(const protocol::Manifest& manifest);

  // The values of all slices in the newest checkpoint, in table order; false if there is none.
  bool Saved(std::vector<float>* values) const;
  // Slices read from a checkpoint.
  uint64_t loads() const { return loads_; }

 private:
  uint64_t loads_ = 0;
};

}  // namespace leat::sim
