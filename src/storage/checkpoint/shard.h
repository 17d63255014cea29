// The file of one server's or member's slices in a checkpoint (docs/formats/checkpoint.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocol/records/manifest.h"
#include "protocol/slice.h"

namespace leat::checkpoint {

// Whether a shard survives a power cut; a copy that is removed after its transfer need not.
enum class Durability { kSynced, kNotSynced };

// For slices that are updated while they are saved. Called in the writing thread; null: nothing to be told.
struct ShardProgress {
  // A slice to write before all others, if it has not been written; none: any.
  std::function<std::optional<SliceId>()> urgent = {};
  // The slice is in the file, and released.
  std::function<void(SliceId)> written = {};
};

// Writes the slices of one server to `<directory>/shard-<node>.safetensors`, or to the file `name` there, and
// syncs it. Each slice is released once it is written. Tensors: "<variable>[begin:end]" for values,
// "<variable>[begin:end]/<slot>" for optimizer slots; for moments, whose range is of features, "…/count"
// (U64), "…/mean" and "…/m2" (F64). Thread-safe: uses only its arguments and the file. kInvalidArgument if a
// slice differs from the table; kResourceExhausted if the disk is full. A failure leaves no file.
Result<protocol::ManifestShard> WriteShard(const std::string& directory, uint64_t node,
                                           const protocol::SliceTable& table,
                                           std::span<const std::string_view> slot_names,
                                           std::vector<std::shared_ptr<const protocol::Slice>> slices,
                                           Durability durability = Durability::kSynced,
                                           const ShardProgress& progress = {}, const std::string& name = "");

// The bytes of a shard, which may be elsewhere. Thread-safe if ReadAt is.
class ShardSource {
 public:
  // An opened file with the size that it has now. It stays readable after the file is renamed or removed.
  static Result<std::unique_ptr<ShardSource>> Open(const std::string& path);
  virtual ~ShardSource() = default;
  virtual const std::string& path() const = 0;  // for messages
  virtual uint64_t size() const = 0;
  // Fills all of `out`, which ends at size() or before.
  virtual Status ReadAt(uint64_t offset, std::span<std::byte> out) const = 0;
};

// Reads slices from a shard and verifies them: kDataLoss, with a message that begins with the path, for any
// difference from the written bytes. Thread-safe once open, if its source is.
class ShardReader {
 public:
  // Reads the head; kDataLoss if its checksum is not `checksum` (the manifest's).
  static Result<std::unique_ptr<ShardReader>> Open(const std::string& path, uint64_t checksum);
  static Result<std::unique_ptr<ShardReader>> Open(std::unique_ptr<ShardSource> source, uint64_t checksum);
  virtual ~ShardReader() = default;
  // The slice with its optimizer slots (`slots`; none for a statistic), ledger and saved incarnation.
  // kNotFound if it is not in this shard, kFailedPrecondition if the job's variables or slots differ.
  virtual Result<protocol::Slice> Read(const protocol::SliceTable& table, SliceId slice,
                                       uint32_t slots) const = 0;
  // Reads only the values; `out` has as many elements as the slice.
  virtual Status ReadValues(const protocol::SliceTable& table, SliceId slice, std::span<float> out) const = 0;
};

// kDataLoss if the shard is missing or has another size; the message has both sizes.
Status CheckSize(const std::string& path, uint64_t bytes);
// As CheckSize, and reads the whole file: kDataLoss if a byte differs. `checksum` is the manifest's.
Status VerifyFile(const std::string& path, uint64_t bytes, uint64_t checksum);

}  // namespace leat::checkpoint
