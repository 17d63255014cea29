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

// Writes the slices of one server as `<directory>/shard-<node>.safetensors`, synced. Tensors:
// "<variable>[begin:end]" for values, "<variable>[begin:end]/<slot>" for the slots of those that are trained.
// Touches nothing but its arguments and the file, so it may run on any thread. kInvalidArgument when a slice
// is not as the table has it; kResourceExhausted when the disk is full. A failure leaves no file.
Result<protocol::ManifestShard> WriteShard(const std::string& directory, uint64_t node,
                                           const protocol::SliceTable& table,
                                           std::span<const std::string_view> slot_names,
                                           std::span<const std::shared_ptr<const protocol::Slice>> slices);

// Reads slices out of a shard. Thread-safe once open.
class ShardReader {
 public:
  // Reads the whole file once; kDataLoss when its checksum is not `checksum` (the manifest's).
  static Result<std::unique_ptr<ShardReader>> Open(const std::string& path, uint64_t checksum);
  virtual ~ShardReader() = default;
  // The slice with its optimizer's slots (`slots`, for a statistic none), ledger, and the incarnation that it
  // was saved with. kNotFound when it is not in this shard, kFailedPrecondition when the job's variables or
  // slots are others.
  virtual Result<protocol::Slice> Read(const protocol::SliceTable& table, SliceId slice,
                                       uint32_t slots) const = 0;
  // Its values alone, into as many elements as the slice has.
  virtual Status ReadValues(const protocol::SliceTable& table, SliceId slice, std::span<float> out) const = 0;
};

// kDataLoss when the shard is missing, or with both values when its size is another.
Status CheckSize(const std::string& path, uint64_t bytes);
// The same, and reads the whole file: kDataLoss when the checksum is another.
Status VerifyFile(const std::string& path, uint64_t bytes, uint64_t checksum);

}  // namespace leat::checkpoint
