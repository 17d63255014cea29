// The directory of a standby that shares nothing with its coordinator: a copy of the coordinator's job,
// journal and checkpoints, from which the standby can go on as the coordinator (Store::Open).
//
//   <directory>/
//     term-000002.copy/journal    the journal of the coordinator of term 2, as far as it has come
//     checkpoint-000007/          complete, once its manifest is there
//     coordinator                 the number of this directory (CoordinatorNumber)
//     everything else             as in a coordinator's directory
//
// A directory never follows a term lower than the highest that it has. Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/records/journal.h"
#include "protocol/records/manifest.h"
#include "storage/checkpoint/file.h"
#include "storage/checkpoint/journal.h"

namespace leat::checkpoint {

class StandbyDirectory {
 public:
  // Creates the directory if it is missing, and locks it. kFailedPrecondition if another process holds it.
  static Result<std::unique_ptr<StandbyDirectory>> Open(const std::string& directory);

  const std::string& directory() const { return directory_; }
  uint64_t coordinator() const { return coordinator_; }
  // The highest that the directory knows (MakeTerm); 0: it has no journal yet.
  uint64_t term() const { return term_; }
  // Its newest journal is that of a coordinator with this directory.
  bool founder() const { return founder_; }
  // The text of the job; none: there is none yet.
  Result<std::optional<std::string>> Job() const;
  // Records of the newest journal; kDataLoss if there is none.
  Result<std::vector<protocol::JournalRecord>> Records() const;

  // The records replace the directory's journal. All on disk when it returns ok; after a failure it has the
  // former journal. kStale: the term is lower than the highest that the directory knows.
  Status Begin(uint64_t term, const std::string& job, const std::vector<protocol::JournalRecord>& records);
  // All on disk when it returns ok. Only after Begin.
  Status Append(std::span<const protocol::JournalRecord> records);

  // The newest complete checkpoint; 0: there is none.
  uint64_t newest_checkpoint() const { return newest_checkpoint_; }
  // Creates an empty directory for the checkpoint and returns its path. Removes incomplete checkpoints.
  Result<std::string> Prepare(uint64_t id);
  // Reads all shards in a checkpoint's directory: kDataLoss if one is not what the manifest says.
  // Thread-safe.
  static Status Verify(const std::string& path, const protocol::Manifest& manifest);
  // Writes the manifest. The shards are in the directory, synced and verified.
  Status Complete(const protocol::Manifest& manifest);
  // As Store::Drop. Does nothing unless it has this checkpoint or a later one.
  Status Drop(uint64_t oldest_kept, const std::vector<protocol::Position>& watermark);

 private:
  StandbyDirectory(std::string directory, File lock)
      : directory_(std::move(directory)), lock_(std::move(lock)) {}
  Status RemoveCheckpoint(uint64_t id);

  std::string directory_;
  File lock_;
  uint64_t coordinator_ = 0;
  uint64_t term_ = 0;
  bool founder_ = false;
  uint64_t newest_checkpoint_ = 0;
  std::optional<Journal> journal_;  // the copied journal
};

}  // namespace leat::checkpoint
