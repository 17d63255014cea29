// Records in memory as a sealed topic, for files and tests.
//
// Records are numbered consecutively; a partition is a contiguous share of them. Records that are added later
// belong to the last one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stream/source.h"

namespace leat::stream {

// The base of such sources; derived classes provide the records.
class NumberedSource : public Source {
 public:
  // Divides `records` into `partitions` (> 0) shares whose sizes differ by at most one.
  NumberedSource(uint64_t records, uint32_t partitions) : NumberedSource(records, partitions, records) {}
  // Divides the first `shared` records so; the others belong to the last partition.
  NumberedSource(uint64_t records, uint32_t partitions, uint64_t shared);
  Result<std::vector<PartitionRange>> Ranges() override;
  Status Read(uint32_t partition, uint64_t begin, uint64_t end, RecordBatch* out) override;

 protected:
  // Appends the existing records [begin, end) to an empty batch. The caller adds the padding.
  virtual void Append(uint64_t begin, uint64_t end, RecordBatch* out) const = 0;

 private:
  // Number of the partition's first record.
  uint64_t First(uint32_t partition) const;

  const uint64_t records_, shared_;
  const uint32_t partitions_;
};

// As a NumberedSource; `shared`: none: all are.
std::unique_ptr<Source> MakeMemorySource(RecordBatch records, uint32_t partitions,
                                         std::optional<uint64_t> shared = std::nullopt);
// As above, from texts.
std::unique_ptr<Source> MakeMemorySource(const std::vector<std::string>& records, uint32_t partitions);

}  // namespace leat::stream
