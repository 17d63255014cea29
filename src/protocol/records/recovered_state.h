#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "protocol/records/journal.h"
#include "protocol/records/manifest.h"

namespace leat::protocol {

// The state from which a job is resumed.
struct RecoveredState {
  std::optional<Manifest> manifest;    // the newest complete one that is not damaged
  std::vector<JournalRecord> journal;  // at least all records since the manifest
  uint64_t last_checkpoint = 0;        // ids up to this one are taken, by damaged checkpoints, too
  // The watermark of the oldest complete checkpoint: the stream and the journal reach back to it.
  std::vector<Position> oldest_watermark;
};

// The beginning of the message for a damaged checkpoint that was passed over. The reason why the one before
// it is not used either follows.
std::string PassedOver(const Status& why);

}  // namespace leat::protocol
