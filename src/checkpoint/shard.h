// The file of one server's or member's slices in a checkpoint (docs/formats/checkpoint.md).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "protocol/coordinator/coordinator.h"
#include "protocol/slice.h"

namespace leat::checkpoint {

// Writes the slices of one server to `<directory>/shard-<node>.safetensors` and syncs it. Tensors:
// "<variable>[begin:end]" for values, "<variable>[begin:end]/<slot>" for optimizer slots. Thread-safe: uses
// only its arguments and the file. kInvalidArgument if a slice differs from the table; kResourceExhausted if
// the disk is full. A failure leaves no file.
Result<protocol::ManifestShard> WriteShard(const std::string& directory, uint64_t node,
                                           const protocol::SliceTable& table,
                                           std::span<const std::string_view> slot_names,
                                           std::span<const std::shared_ptr<const protocol::Slice>> slices);

// Reads slices from a shard. Thread-safe once open.
class ShardReader {
 public:
  // Reads and verifies the whole file; kDataLoss if its checksum is not `checksum` (the manifest's).
  static Result<std::unique_ptr<ShardReader>> Open(const std::string& path, uint64_t checksum);
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
// As CheckSize, and reads the whole file: kDataLoss if its checksum differs.
Status VerifyFile(const std::string& path, uint64_t bytes, uint64_t checksum);

}  // namespace leat::checkpoint
