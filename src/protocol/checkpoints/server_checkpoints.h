// Checkpoints at a server: it saves its slices when the coordinator orders it, and reports the shard.
//
// Invariants:
// - A server saves one shard at a time: a newer order waits for OnShardSaved.
// - A replica is never saved: its primary saves the slice. A slice is saved once for each checkpoint, also if
//   it moves to another server meanwhile.
// - Stepped: each slice is saved as it was at the order's version. Slices reach it at different times, and
//   each is kept as it is then; a change that its replica may lack is not written, or another history might
//   follow.
//
// A save that fails, or comes too late, is reported with its Status. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "protocol/slices/server/replica_forwards.h"

namespace leat::protocol {

class ServerCheckpoints {
 public:
  ServerCheckpoints(HostedSlices& slices, const ReplicaForwards& forwards)
      : slices_(slices), forwards_(forwards) {}

  // The order is repeated until it is executed or withdrawn. None: nothing is to be saved now.
  std::optional<SaveShard> Take(const std::optional<CheckpointOrder>& order);
  // The bytes of each slice that a save would have now.
  std::vector<uint64_t> BytesToSave() const;
  // The shell needs the slices of this save no longer, so their memory is free again.
  void OnSlicesRead(uint64_t checkpoint);
  // Fills in `report.slices`.
  void OnShardSaved(ShardReport report);
  void Report(ServerHeartbeat* heartbeat) const { heartbeat->shard = shard_; }

 private:
  struct Save {
    uint64_t checkpoint = 0;
    std::vector<SliceIncarnation> incarnations;
    // Stepped: referenced until saved, so that no update overwrites memory that another thread reads.
    std::vector<std::shared_ptr<const Slice>> slices;
  };

  std::optional<SaveShard> TakeAtVersion(const std::optional<CheckpointOrder>& order);
  SaveShard Begin(const CheckpointOrder& order, std::vector<std::shared_ptr<const Slice>> slices);

  HostedSlices& slices_;
  const ReplicaForwards& forwards_;
  std::optional<Save> saving_;
  uint64_t last_ = 0;  // the last checkpoint that was begun, or has failed
  std::optional<ShardReport> shard_;
};

}  // namespace leat::protocol
