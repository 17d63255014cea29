// The durable checkpoints that the coordinator keeps, and the verification of one that slices cannot be
// restored from.
//
// Invariants:
// - The newest checkpoint is the source that slices are restored from, until it is found damaged: then the
//   one before it is.
// - Every cut from the watermark of the oldest kept checkpoint on can be trained again.
// - At most one checkpoint is being verified.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "protocol/outbox/outbox.h"
#include "protocol/slices.h"

namespace leat::protocol {

// Throws std::invalid_argument if it does not have each slice once, or is of another stream.
void CheckManifest(const Manifest& manifest, size_t slices, size_t partitions);

class KeptCheckpoints {
 public:
  KeptCheckpoints(uint32_t keep, Outbox* outbox) : keep_(keep), outbox_(*outbox) {}

  const std::optional<Manifest>& newest() const { return newest_; }
  // May take the place of the newest one.
  const Manifest& oldest() const { return kept_.begin()->second; }
  // Adds one that is durable now, and forgets those that are too many.
  void Add(Manifest manifest);
  // Bytes of the newest one's shards.
  uint64_t bytes() const;

  // Slices cannot be restored, for this reason (ok: one of them, for the first time). Has the checkpoint that
  // they are restored from verified; false if there is none.
  bool Suspect(const Status& why);
  bool suspects() const { return suspicion_.has_value(); }
  struct Verdict {
    Status end;             // why the job ends; ok: it does not
    bool replaced = false;  // the checkpoint before it is the newest one now
  };
  // The verification has ended. `stopping`: the job ends anyway.
  Verdict OnVerified(uint64_t id, const Status& status, bool stopping);

 private:
  // The checkpoint that is being verified, and why the job ends if it is not damaged.
  struct Suspicion {
    uint64_t checkpoint = 0;
    Status why;
  };

  uint32_t keep_;
  Outbox& outbox_;
  std::optional<Manifest> newest_;
  std::map<uint64_t, Manifest> kept_;  // by id, of this run; the last is `newest_`
  std::optional<Suspicion> suspicion_;
  std::string damage_;  // PassedOver of each checkpoint that was passed over
};

}  // namespace leat::protocol
