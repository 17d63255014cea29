// Checkpoints on disk: safetensors files with a manifest that comes last (docs/formats/checkpoint.md).
//
//   <job directory>/
//     lock                          held by the process that owns the directory
//     job.yaml                      the job as resolved when it was created
//     journal                       cuts made since the oldest kept checkpoint
//     checkpoint-000007/
//       shard-<node>.safetensors    one server's slices: values, optimizer slots, and, in its metadata, their
//                                   versions and ledgers
//       manifest.json               last, by rename: without it there is no checkpoint
//
// Everything is written under a temporary name, synced and renamed. Reading believes nothing: a truncated
// file or a flipped bit anywhere is kDataLoss with path and values. Thread-compatible; one process owns the
// directory, servers write their shard into the checkpoint's directory only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/coordinator/coordinator.h"
#include "protocol/server/server.h"

namespace leat::checkpoint {

class Store {
 public:
  // resume false: makes the directory and an empty journal; kFailedPrecondition when a job is there already.
  // resume true: kNotFound when none is, kDataLoss when the journal is damaged; cuts off what a crash tore.
  // Both: kPermissionDenied when the directory cannot be written, kFailedPrecondition when another living
  // process holds it.
  static Result<std::unique_ptr<Store>> Open(const std::string& directory, bool resume);
  virtual ~Store() = default;

  // Absolute.
  virtual const std::string& directory() const = 0;
  // The job that the directory belongs to. Read gives what Write was given, or kDataLoss.
  virtual Status WriteJob(const std::string& yaml) = 0;
  virtual Result<std::string> ReadJob() const = 0;

  // The newest complete checkpoint, whose shards are there with their sizes, and the journal. Their bytes are
  // read by Verify, and by every server that opens one.
  virtual Result<protocol::RecoveredState> Restore() const = 0;

  // On disk when it returns ok. After a failed sync every later one fails too.
  virtual Status AppendJournal(const protocol::JournalRecord& record) = 0;
  // Makes the checkpoint's directory, empty. kFailedPrecondition when a complete one has this id.
  virtual Result<protocol::CheckpointOrder> Prepare(uint64_t id) = 0;
  // The shards must be there, with the sizes that their servers reported.
  virtual Status Commit(const protocol::Manifest& manifest) = 0;
  // Removes all checkpoints before `oldest_kept`, and from the journal the cuts that end at or before
  // `watermark` (by partition).
  virtual Status Drop(uint64_t oldest_kept, const std::vector<protocol::Position>& watermark) = 0;
};

// These only read, and take no lock. The newest complete checkpoint of a job's directory; kNotFound when
// there is none.
Result<protocol::Manifest> ReadNewest(const std::string& directory);
// The job that a directory belongs to: kNotFound when it holds none, kDataLoss when it is damaged.
Result<std::string> ReadJob(const std::string& directory);
// Reads job, journal, the newest checkpoint's manifest and all of its shards: kDataLoss with path and values
// when any byte is damaged. Ok when there is no checkpoint yet.
Status Verify(const std::string& directory);

}  // namespace leat::checkpoint
