// Checkpoints on disk: safetensors files, completed by a manifest (docs/formats/checkpoint.md).
//
//   <job directory>/
//     lock                          held by the process that owns the directory
//     job.yaml                      the resolved job
//     run                           a random number that this directory's coordinators and members share
//     term-000001/journal           the coordinator's decisions since the oldest kept checkpoint (journal.h)
//     checkpoint-000007/
//       shard-<node>.safetensors    one server's slices: values, optimizer slots, and, in its metadata, their
//                                   versions and ledgers
//       manifest.json               last, by rename: without it the checkpoint does not exist
//     checkpoint-000006.damaged/    kept aside; never read again and never removed
//
// Everything is written under a temporary name, synced and renamed. Files are treated as untrusted: a
// truncated file or a flipped bit is kDataLoss with path and values. Thread-compatible. One process owns the
// directory; servers only write their shards into a checkpoint's directory. A new owner may take it over from
// one that is still alive: that one's calls then return kStale and change nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/records/journal.h"
#include "protocol/slices.h"
#include "storage/checkpoint/file.h"

namespace leat::checkpoint {

// A complete checkpoint whose contents differ from the written ones.
struct DamagedCheckpoint {
  uint64_t id = 0;
  Status why;  // kDataLoss, with path and values
};

// The newest intact checkpoint.
struct IntactCheckpoint {
  std::optional<protocol::Manifest> manifest;  // none: no checkpoint is complete
  std::vector<DamagedCheckpoint> damaged;      // the newer ones, newest first
};

class Store {
 public:
  // resume false: creates the directory and an empty journal; kFailedPrecondition if it already has a job.
  // resume true: kNotFound if there is no job, kDataLoss if the journal is damaged; truncates a torn record.
  // Both: kPermissionDenied if the directory is not writable, kFailedPrecondition if another running process
  // holds it, unless `take_over`. `term`: its number, if the members have elected this coordinator; 0: the
  // next one of the directory.
  static Result<std::unique_ptr<Store>> Open(const std::string& directory, bool resume,
                                             bool take_over = false, uint64_t term = 0);
  virtual ~Store() = default;

  // Absolute.
  virtual const std::string& directory() const = 0;
  // Term of this owner: higher than those of all former ones (protocol::MakeTerm).
  virtual uint64_t term() const = 0;
  // The records of the journal, those that were appended last included.
  virtual Result<std::vector<protocol::JournalRecord>> ReadJournal() const = 0;
  // The job of the directory. ReadJob returns exactly the text written, or kDataLoss.
  virtual Status WriteJob(const std::string& yaml) = 0;
  virtual Result<std::string> ReadJob() const = 0;

  // The newest complete checkpoint that is not among `damaged`, after checking that its shards exist with
  // their sizes, and the journal. Verify, and every server that reads a slice, check the shards' contents.
  virtual Result<protocol::RecoveredState> Restore(
      const std::vector<DamagedCheckpoint>& damaged = {}) const = 0;
  // Renames a complete checkpoint to AsideName. Durable.
  virtual Status SetAside(uint64_t id) = 0;

  // All on disk when it returns ok. A failure adds none; the call can be repeated (journal.h). On a full
  // disk, older complete checkpoints make room as for Prepare. Without records: only finds out whether
  // another owner has taken over.
  virtual Status AppendJournal(std::span<const protocol::JournalRecord> records) = 0;
  Status AppendJournal(const protocol::JournalRecord& record) { return AppendJournal(std::span(&record, 1)); }
  // Creates the checkpoint's empty directory. If the disk has less than `bytes` free, first removes complete
  // checkpoints, the oldest first and never the newest, if that frees enough; otherwise kResourceExhausted.
  // kFailedPrecondition if a complete one has this id.
  virtual Result<protocol::CheckpointOrder> Prepare(uint64_t id, uint64_t bytes) = 0;
  // The shards must exist, with the reported sizes.
  virtual Status Commit(const protocol::Manifest& manifest) = 0;
  // Removes a checkpoint, complete or not. Ok if there is none. This and DropCheckpoints may run beside calls
  // of another thread: large files take seconds.
  virtual Status Remove(uint64_t id) = 0;
  // Removes all checkpoints before `oldest_kept` and incomplete ones before the newest complete one.
  virtual Status DropCheckpoints(uint64_t oldest_kept) = 0;
  // Removes from the journal the cuts that end at or before `watermark` (by partition). After
  // DropCheckpoints: the journal's new file may need their space.
  virtual Status CompactJournal(const std::vector<protocol::Position>& watermark) = 0;
  Status Drop(uint64_t oldest_kept, const std::vector<protocol::Position>& watermark) {
    LEAT_RETURN_IF_ERROR(DropCheckpoints(oldest_kept));
    return CompactJournal(watermark);
  }
  // The job has ended in order, or is stopped: nobody needs to take over (NewestClaimed). Nothing can be
  // appended to the journal any more.
  virtual Status End() = 0;
};

// "checkpoint-000007.damaged".
std::string AsideName(uint64_t id);
// Explains in one line why no checkpoint is left: "<why of the first>; the checkpoint before it cannot be
// used either: <why of the second>; …", at its end `last`, the reason why the checkpoint before them is not
// used.
std::string NoneLeft(const std::vector<DamagedCheckpoint>& damaged, const std::string& last);
// Says in one line which checkpoint is used instead of the damaged ones; empty if there are none.
std::string UsedInstead(const IntactCheckpoint& found);

// ---- parts of a directory that a standby has, too (standby/)

// Locks it for this process, as long as the file (kLock) is open; kFailedPrecondition if another one holds
// it.
inline constexpr const char* kLock = "lock";
Result<File> LockDirectory(const std::string& directory);
Status WriteJob(const std::string& directory, const std::string& yaml);
// The number that the coordinators and members of a run share; 0: there is none. kDataLoss if it is damaged.
Result<uint32_t> ReadRun(const std::string& directory);
Status WriteRun(const std::string& directory, uint32_t run);
// A random number by which members and other coordinators know a coordinator with this directory.
Result<uint64_t> CoordinatorNumber(const std::string& directory);
std::string CheckpointName(uint64_t id);  // "checkpoint-000007"
// The id in a name that CheckpointName has made; none for other names.
std::optional<uint64_t> CheckpointId(std::string_view name);
// Ids of the checkpoints in a directory whose names end in `suffix`, ascending.
Result<std::vector<uint64_t>> ListCheckpoints(const std::string& directory, std::string_view suffix = "");
// The complete ones: those with a manifest, ascending.
Result<std::vector<uint64_t>> CompleteCheckpoints(const std::string& directory);
inline constexpr const char* kManifestName = "manifest.json";

// The functions below only read and take no lock. The newest complete checkpoint of a job's directory, by its
// manifest; kNotFound if there is none.
Result<protocol::Manifest> ReadNewest(const std::string& directory);
// Reads whole checkpoints, the newest first, until one is intact. kDataLoss with the reason of each if all
// are damaged.
Result<IntactCheckpoint> ReadIntact(const std::string& directory);
// The job of a directory: kNotFound if it has none, kDataLoss if it is damaged.
Result<std::string> ReadJob(const std::string& directory);
// Reads one whole checkpoint: kDataLoss with path and values if it is damaged or gone.
Status VerifyCheckpoint(const std::string& directory, uint64_t id);
// Reads the job, the journal, and checkpoints as ReadIntact: kDataLoss with path and values if nothing can be
// resumed.
Result<IntactCheckpoint> Verify(const std::string& directory);

// All variables of a complete checkpoint, row-major, for evaluation and export. `directory` is the job's.
Result<std::vector<std::vector<float>>> ReadVariables(const std::string& directory,
                                                      const protocol::Manifest& manifest,
                                                      const protocol::SliceTable& table);

struct NewestVariables {
  std::vector<std::vector<float>> variables;
  std::string warning;  // UsedInstead; empty if the newest checkpoint is intact
};
// All variables of the newest checkpoint that is not damaged. kNotFound if there is no complete checkpoint,
// kDataLoss if all are damaged.
Result<NewestVariables> ReadNewestVariables(const std::string& directory, const protocol::SliceTable& table);

}  // namespace leat::checkpoint
