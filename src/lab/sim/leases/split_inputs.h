// Splits that workers prepare: read from elsewhere in parts, and decoded on the worker's host.
//
// A worker reads and decodes one after the other, ahead of its training. Without an input, a split takes a
// random time. Parts share the source's link with other workers, and the worker's with other messages.
#pragma once

#include "lab/sim/events/memory.h"
#include "lab/sim/members/role_process.h"
#include "protocol/actions.h"
#include "protocol/worker/worker.h"

namespace leat::sim {

class ActionExecutor;
class GroupMembers;
class LeaseCheck;

class SplitInputs {
 public:
  SplitInputs(World& world, ProcessTable& processes, HostLinks& links, HostCores& cores, GroupMembers& groups,
              ActionExecutor& executor, LeaseCheck& lease_check)
      : world_(world),
        processes_(processes),
        links_(links),
        cores_(cores),
        groups_(groups),
        executor_(executor),
        lease_check_(lease_check),
        source_(world.options.input.link) {}

  void Execute(const ProcessPtr& p, const protocol::PrepareSplit& a);
  void Execute(const ProcessPtr& p, const protocol::DropSplit& a);

  // ---- events
  void OnChunkArrives(uint32_t index);
  void OnChunkDelivered(uint32_t index);
  void OnDecoded(uint32_t index);

 private:
  struct Decoding {
    uint32_t slot = 0;
    uint32_t incarnation = 0;
  };
  struct Chunk {
    uint32_t slot = 0;
    uint32_t incarnation = 0;
    uint64_t bytes = 0;
    Time last_byte{0};
  };

  bool HasInput() const { return world_.options.input.event_bytes > 0 || world_.options.input.decode > 0; }
  void ReadNext(const ProcessPtr& p);
  void RequestChunk(RoleProcess* p);
  // Decodes the split that has been read.
  void Decode(const ProcessPtr& p);
  void OnReady(const ProcessPtr& p, uint64_t lease);

  World& world_;
  ProcessTable& processes_;
  HostLinks& links_;
  HostCores& cores_;
  GroupMembers& groups_;
  ActionExecutor& executor_;
  LeaseCheck& lease_check_;
  LinkQueue source_;
  Slab<Decoding> decodings_;
  Slab<Chunk> chunks_;
};

}  // namespace leat::sim
