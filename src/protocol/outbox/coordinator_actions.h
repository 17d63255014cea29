// The actions that the coordinator asks of its shell. The shell executes the actions of one input in order.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/status.h"
#include "protocol/messages_control.h"
#include "protocol/records/journal.h"
#include "protocol/records/manifest.h"

namespace leat::protocol {

struct Reply {
  uint64_t call = 0;
  ControlReply reply;
};
struct AppendJournal {  // append and sync; OnReplaced if another coordinator has sealed the journal before
  JournalRecord record;
};
// No record, but the following actions need to know that the journal has no seal; OnReplaced if it has one.
struct ConfirmTerm {};
struct PrepareCheckpoint {  // make the directory; answer OnCheckpointPrepared
  uint64_t id = 0;
  uint64_t bytes = 0;               // an estimate of its size
  std::vector<Position> watermark;  // as of now
};
struct CommitManifest {  // write, sync and rename, the manifest last; answer OnManifestCommitted
  Manifest manifest;
};
struct DropCheckpoints {  // remove checkpoints older than this id; the journal may drop records before
                          // `watermark`
  uint64_t oldest_kept = 0;
  // Position of the oldest kept checkpoint, or of predictions that are still to be published.
  std::vector<Position> watermark;
};
struct RemoveCheckpoint {  // remove one that was given up
  uint64_t id = 0;
};
// Slices cannot be restored from a checkpoint. Read all of it; if it is damaged (kDataLoss), and there is one
// before it, keep it aside and publish that one. Answer OnCheckpointVerified.
struct VerifyCheckpoint {
  uint64_t id = 0;
  std::optional<Manifest> before;  // the one that takes its place
};
struct JobEnded {
  Status status;          // ok: finished, or stopped on demand; kStale: another coordinator goes on with it
  bool finished = false;  // every event of the stream is in the newest checkpoint
  MembersLeft left;  // append it if that is possible, so that the next coordinator does not wait for them
};
using CoordinatorAction = std::variant<Reply, AppendJournal, ConfirmTerm, PrepareCheckpoint, CommitManifest,
                                       DropCheckpoints, RemoveCheckpoint, VerifyCheckpoint, JobEnded>;
using CoordinatorActions = std::vector<CoordinatorAction>;

}  // namespace leat::protocol
