// Where events come from: topics cut into partitions, each an ordered run of records with dense offsets.
//
// One interface for the embedded log, files and (later) Kafka. Readers say what they want by offset and keep
// no place of their own: which worker reads which range is the coordinator's business. Offsets are dense:
// record `o` is there for every begin ≤ o < end.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"

namespace leat::stream {

// What a partition holds now. `begin` grows with retention, `end` with every append.
struct PartitionRange {
  uint32_t partition = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  bool sealed = false;  // no record will ever be appended: a file, or a topic whose writers are done
  friend bool operator==(const PartitionRange&, const PartitionRange&) = default;
};

// Consecutive records in one block of memory: record i is the bytes [offsets[i], offsets[i + 1]) of `data`.
// Reused from read to read, so steady reading allocates nothing.
struct RecordBatch {
  // JSON parsers read past the end of a record: this many bytes behind the last one may be read.
  static constexpr size_t kPadding = 64;

  uint32_t partition = 0;
  uint64_t first_offset = 0;
  std::vector<uint64_t> offsets{0};  // size() + 1 entries
  std::vector<std::byte> data;       // ends in kPadding zeros
  size_t size() const { return offsets.size() - 1; }
  ByteView operator[](size_t i) const {
    return ByteView(data).subspan(offsets[i], offsets[i + 1] - offsets[i]);
  }
};

// Not thread-safe: one Source per thread; any number of Sources, in any number of processes, per topic.
class Source {
 public:
  virtual ~Source() = default;
  virtual Result<std::vector<PartitionRange>> Ranges() = 0;
  // Replaces what `out` holds with the records [begin, end) of a partition. kNotFound, naming offsets, when
  // retention has taken some of them; kFailedPrecondition when some are not there yet; kDataLoss when bytes
  // are damaged.
  virtual Status Read(uint32_t partition, uint64_t begin, uint64_t end, RecordBatch* out) = 0;
  // Records below `offset` are no longer needed by the job `owner` (its oldest checkpoint's watermark):
  // retention may take them, and must keep all above. Sources without retention ignore it. kNotFound when
  // retention has already taken some of them; what is left is kept all the same.
  virtual Status Pin(const std::string& /*owner*/, uint32_t /*partition*/, uint64_t /*offset*/) {
    return Status();
  }
  // The job is over: its pins no longer hold anything back. Idempotent.
  virtual Status Unpin(const std::string& /*owner*/) { return Status(); }
};

}  // namespace leat::stream
