// Checkpoints on disk: safetensors files with a manifest that comes last (row E5;
// docs/formats/checkpoint.md).
//
//   <job directory>/
//     job.yaml                      the job as resolved when it was created
//     journal                       cuts made since the oldest kept checkpoint
//     checkpoint-000007/
//       shard-<node>.safetensors    values, optimizer slots, and (in its metadata) versions and ledgers of
//       the slices of one server manifest.json               last, by rename: without it there is no
//       checkpoint
//
// Everything is written under a temporary name, synced and renamed. Reading believes nothing: a truncated
// file or a flipped bit anywhere is kDataLoss with path and values. Thread-compatible; one process owns the
// directory (a lock file says so), servers write their shard into the checkpoint's directory only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/coordinator.h"
#include "protocol/server.h"

namespace leat::checkpoint {

// Writes the slices of one server as `<directory>/shard-<node>.safetensors`. Tensors: "<variable>[begin:end]"
// for values,
// "<variable>[begin:end]/<slot>" for slots.
Result<protocol::ManifestShard> WriteShard(const std::string& directory, uint64_t node,
                                           const protocol::SliceTable& table,
                                           std::span<const std::string_view> slot_names,
                                           std::span<const std::shared_ptr<const protocol::Slice>> slices);

// Reads one slice out of a shard; its incarnation is left at the one saved. `checksum` is the manifest's; a
// shard is verified whole once and then read from a map.
class ShardReader {
 public:
  static Result<std::unique_ptr<ShardReader>> Open(const std::string& path, uint64_t checksum);
  virtual ~ShardReader() = default;
  virtual Result<protocol::Slice> Read(const protocol::SliceTable& table, SliceId slice,
                                       uint32_t slots) const = 0;
};

class Store {
 public:
  // Makes the directory when it is not there. kPermissionDenied when it cannot be written,
  // kFailedPrecondition when another living process holds it, or when it has a job already and `resume` is
  // false.
  static Result<std::unique_ptr<Store>> Open(const std::string& directory, bool resume);
  virtual ~Store() = default;

  virtual const std::string& directory() const = 0;
  // The job that the directory belongs to.
  virtual Status WriteJob(const std::string& yaml) = 0;
  virtual Result<std::string> ReadJob() const = 0;

  // The newest complete checkpoint and the journal. A torn last record of the journal is what a crash leaves
  // and is dropped; damage anywhere else is kDataLoss.
  virtual Result<protocol::Restored> Restore() const = 0;

  virtual Status AppendJournal(const protocol::JournalRecord& record) = 0;  // on disk when it returns
  virtual Result<protocol::CheckpointOrder> Prepare(uint64_t id) = 0;
  virtual Status Commit(const protocol::Manifest& manifest) = 0;
  virtual Status Drop(uint64_t oldest_kept, const std::vector<protocol::Position>& watermark) = 0;
};

// Both only read, and take no lock. The newest complete checkpoint of a job's directory; kNotFound when there
// is none.
Result<protocol::Manifest> ReadNewest(const std::string& directory);
// Reads the journal, the newest checkpoint's manifest and all of its shards, byte by byte: kDataLoss with
// path and values when anything is damaged. Ok when there is no checkpoint yet.
Status Verify(const std::string& directory);

// All variables of a complete checkpoint put together, by variable, row-major: for evaluation and export.
Result<std::vector<std::vector<float>>> ReadVariables(const std::string& directory,
                                                      const protocol::Manifest& manifest,
                                                      const protocol::SliceTable& table);

}  // namespace leat::checkpoint
