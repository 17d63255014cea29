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

class SplitInputs : Concern {
 public:
  using Concern::Concern;

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

  bool HasInput() const { return options_.input.event_bytes > 0 || options_.input.decode > 0; }
  void ReadNext(const ProcessPtr& p);
  void RequestChunk(RoleProcess* p);
  // Decodes the split that has been read.
  void Decode(const ProcessPtr& p);
  void OnReady(const ProcessPtr& p, uint64_t lease);

  LinkQueue source_{options_.input.link};
  Slab<Decoding> decodings_;
  Slab<Chunk> chunks_;
};

}  // namespace leat::sim
